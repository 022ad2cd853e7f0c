package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// A Migration holds the steps of the migrate function. R is its report about the schema.
type Migration[R any] struct {
	// Up brings the schema of the database at a URL up to date.
	Up func(ctx context.Context, url string, log *slog.Logger) (R, error)
	// Seed creates the rows that the product needs, and reports whether it created an owner.
	Seed func(ctx context.Context, core *app.Core, seeds app.Seeds) (owner bool, err error)
	// Email returns an error for a text that is not an e-mail address.
	Email func(text string) (string, error)
}

// StartMigrate serves the migrate function, which migrates and seeds the database. With DEMO it adds
// demo content. With an e-mail address in the event it creates the first owner. The event is {} or
// {"owner": "you@example.com"}, and the response says what was done.
//
// The function is also a custom resource of CloudFormation, with the address in the property
// OwnerEmail. Create and Update migrate and seed, Delete does nothing. The stack receives the result
// before the invocation's time limit. StartMigrate is called by functions/migrate, the only function
// that links the migrations.
func StartMigrate[R any](s *Sandbox, m Migration[R]) error { return s.start(migrator(s, m)) }

func migrator[R any](s *Sandbox, m Migration[R]) handler {
	open := newOpener(s, func(*app.Core) (struct{}, error) { return struct{}{}, nil })
	migrate := func(ctx context.Context, owner string) (any, error) {
		if owner != "" {
			if _, err := m.Email(owner); err != nil {
				return nil, &EventError{Problem: "names an owner whose e-mail address is none"}
			}
		}
		ctx, cancel := lane.WithInnerDeadline(ctx) // the remaining time is for the response
		defer cancel()
		return open.do(ctx, func(o *opened[struct{}]) (any, error) {
			did, err := m.Up(ctx, o.core.Config.DatabaseURL, s.log)
			if err != nil {
				return nil, &MigrationError{err}
			}
			s.log.InfoContext(ctx, "schema is up to date", "did", did)
			made, err := m.Seed(ctx, o.core, app.Seeds{Demo: s.cfg.Demo != nil && *s.cfg.Demo, Owner: owner})
			answer := migrated[R]{Schema: did}
			if owner != "" && err == nil {
				answer.Owner = "there is one already"
				if made {
					answer.Owner = "made"
				}
				s.log.InfoContext(ctx, "the default workspace has an owner", "made", made)
			}
			return answer, err
		})
	}
	return s.handle(func(ctx context.Context, payload []byte) (any, error) {
		resource, owner, err := decodeMigrate(payload)
		if err != nil {
			return nil, err
		}
		if resource == nil {
			return migrate(ctx, owner)
		}
		return s.serve(ctx, resource, func(ctx context.Context) (any, error) { return migrate(ctx, owner) })
	})
}

// migrated is the response to an invocation by hand.
type migrated[R any] struct {
	Schema R      `json:"schema"`
	Owner  string `json:"owner,omitempty"` // whether the requested owner was created
}

// decodeMigrate reads {} or {"owner": …}, or the event of a custom resource. Every event with a
// ResponseURL counts as a custom resource, whatever else it holds, because a stack waits for the
// response.
func decodeMigrate(payload []byte) (resource *cfn.Event, owner string, err error) {
	if len(payload) > maxEvent {
		return nil, "", &EventError{Problem: fmt.Sprintf("is larger than %d bytes", maxEvent)}
	}
	all, err := fields(payload)
	if err != nil {
		return nil, "", err
	}
	if _, custom := all["ResponseURL"]; !custom {
		e := &event{fields: all}
		owner = e.text("owner")
		return nil, owner, e.rest()
	}
	resource = &cfn.Event{}
	if err := json.Unmarshal(payload, resource); err != nil {
		return nil, "", &EventError{Problem: "is not that of a custom resource"}
	}
	owner, _ = resource.ResourceProperties["OwnerEmail"].(string) // CloudFormation sends strings only
	return resource, owner, nil
}

// physicalID never changes. If it changed in an update, CloudFormation would delete the resource with
// the old id.
const physicalID = "lanekeeper-schema"

// serve carries out the request of a stack and reports the result to it.
func (s *Sandbox) serve(ctx context.Context, e *cfn.Event, migrate func(context.Context) (any, error)) (any, error) {
	r := cfn.NewResponse(e)
	r.PhysicalResourceID, r.Status = physicalID, cfn.StatusSuccess
	if e.PhysicalResourceID != "" {
		r.PhysicalResourceID = e.PhysicalResourceID
	}
	_, failed := s.guarded(ctx, func() (any, error) {
		switch e.RequestType {
		case cfn.RequestCreate, cfn.RequestUpdate:
			return migrate(ctx)
		case cfn.RequestDelete:
			return nil, nil // the data outlives the stack
		}
		return nil, &EventError{"RequestType", "is none of Create, Update and Delete"}
	})
	if failed != nil {
		r.Status, r.Reason = cfn.StatusFailed, failed.Message
	}
	return struct {
		Status cfn.StatusType `json:"status"`
		Reason string         `json:"reason,omitempty"`
	}{r.Status, r.Reason}, report(ctx, e.ResponseURL, r)
}

// report sends the result to the stack. If it fails, the invocation fails too, and Lambda retries. The
// library's own Send is not used because it has no deadline.
func report(ctx context.Context, to string, r *cfn.Response) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the answer to the stack: %w", err)
	}
	// No Content-Type: the URL is signed for a request without one.
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to, bytes.NewReader(body))
	if err != nil {
		return &EventError{"ResponseURL", "is not a URL"} // the error would repeat it, and it is signed
	}
	resp, err := http.DefaultClient.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if err != nil {
		return fmt.Errorf("answer the stack: %w", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxEvent)); err != nil {
		return fmt.Errorf("answer the stack: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answer the stack: its server said %s", resp.Status)
	}
	return nil
}

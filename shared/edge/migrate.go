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

// A Migration is what the migrate function does; R is what it tells of the schema.
type Migration[R any] struct {
	// Up brings the schema of the database at a URL up to date.
	Up func(ctx context.Context, url string, log *slog.Logger) (R, error)
	// Seed makes what must be in it, and reports whether it made an owner.
	Seed func(ctx context.Context, core *app.Core, seeds app.Seeds) (owner bool, err error)
	// Email refuses a text that is no e-mail address.
	Email func(text string) (string, error)
}

// StartMigrate serves the migrate function: it migrates and seeds, with demo content where
// DEMO says so, and with a first owner where the event has an e-mail address. {} or {"owner":
// "you@example.com"} is answered with what was done. As a custom resource of
// CloudFormation, where the address is the property OwnerEmail, Create and Update do
// the same and Delete does nothing; the stack is told how it went before the time of
// the invocation is up. It is called by functions/migrate, which alone links the
// migrations.
func StartMigrate[R any](s *Sandbox, m Migration[R]) error { return s.start(migrator(s, m)) }

func migrator[R any](s *Sandbox, m Migration[R]) handler {
	open := newOpener(s, func(*app.Core) (struct{}, error) { return struct{}{}, nil })
	migrate := func(ctx context.Context, owner string) (any, error) {
		if owner != "" {
			if _, err := m.Email(owner); err != nil {
				return nil, &EventError{Problem: "names an owner whose e-mail address is none"}
			}
		}
		ctx, cancel := lane.WithInnerDeadline(ctx) // the rest is for the answer
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

// migrated is the answer to an invocation by hand.
type migrated[R any] struct {
	Schema R      `json:"schema"`
	Owner  string `json:"owner,omitempty"` // what became of the one that was asked for
}

// decodeMigrate reads {} or {"owner": …}, or the event of a custom resource. A stack
// waits for the answer to one, so what says where to send it is one, whatever else it
// holds.
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
	owner, _ = resource.ResourceProperties["OwnerEmail"].(string) // CloudFormation sends texts only
	return resource, owner, nil
}

// physicalID never changes: were it another after an update, the stack would
// delete the old one.
const physicalID = "lanekeeper-schema"

// serve does what a stack asks for and tells it how that went.
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

// report sends the answer. When it fails, so does the invocation, and Lambda tries
// again. (The library's own Send has no deadline.)
func report(ctx context.Context, to string, r *cfn.Response) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the answer to the stack: %w", err)
	}
	// Without a content type: the URL is signed for none.
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

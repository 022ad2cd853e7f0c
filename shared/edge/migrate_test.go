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
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// stack is a CloudFormation stack that waits for responses, and a migrate function.
type stack struct {
	t       *testing.T
	url     string
	status  int // status of its server's responses
	answers []cfn.Response
	log     *logged
	handler handler

	up    func(context.Context) error
	ups   int
	seeds []app.Seeds
}

type result struct {
	To int `json:"to"`
}

func newStack(t *testing.T, environ ...string) *stack {
	st := &stack{t: t, status: http.StatusOK}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.Header.Get("Content-Type") != "" {
			t.Errorf("%s with content type %q", r.Method, r.Header.Get("Content-Type"))
		}
		var answer cfn.Response
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			t.Error(err)
		}
		st.answers = append(st.answers, answer)
		w.WriteHeader(st.status)
	}))
	t.Cleanup(srv.Close)
	st.url = srv.URL + "/answer?signature=hunter2"
	s, log := sandbox(t, environ...)
	st.log = log
	st.handler = migrator(s, Migration[result]{Email: auth.Email, Up: func(ctx context.Context, url string, _ *slog.Logger) (result, error) {
		st.ups++
		if st.up != nil {
			return result{}, st.up(ctx)
		}
		return result{To: 6}, nil
	}, Seed: func(_ context.Context, _ *app.Core, seeds app.Seeds) (bool, error) {
		st.seeds = append(st.seeds, seeds)
		return seeds.Owner == "you@example.com", nil
	}})
	return st
}

// ask sends the shipped event of this name. The event's ResponseURL is the stack's.
func (st *stack) ask(name string) (answer []byte, err error) {
	st.t.Helper()
	for _, c := range events.For("migrate") {
		if c.Name == name {
			url, err := json.Marshal(st.url)
			if err != nil {
				st.t.Fatal(err)
			}
			return st.handler(invocation(st.t), bytes.ReplaceAll(c.Payload, []byte(`"http://127.0.0.1:9/answer"`), url))
		}
	}
	st.t.Fatalf("there is no event %s", name)
	return nil, nil
}

func TestMigrateByHand(t *testing.T) {
	st := newStack(t, nowhere, "DEMO=1")
	answer, err := st.ask("01_invoke")
	if err != nil || string(answer) != `{"schema":{"to":6}}` || len(st.seeds) != 1 || st.seeds[0] != (app.Seeds{Demo: true}) || len(st.answers) > 0 {
		t.Errorf("answered %s, %v; seeds %v", answer, err, st.seeds)
	}
	st.up = func(context.Context) error { return errors.New("0007_x.sql: permission denied") }
	answer, err = st.ask("01_invoke")
	if f := failed(t, answer, err); f.Type != "MigrationFailed" || !strings.Contains(f.Message, "0007_x.sql: permission denied") || len(st.seeds) != 1 {
		t.Errorf("told %+v; seeds %v", f, st.seeds)
	}
}

func TestMigrateForAStack(t *testing.T) {
	st := newStack(t, nowhere)
	for _, c := range []struct {
		event string
		ups   int
	}{{"02_custom_resource_create", 1}, {"03_custom_resource_delete", 1}} {
		answer, err := st.ask(c.event)
		if err != nil || string(answer) != `{"status":"SUCCESS"}` || st.ups != c.ups {
			t.Errorf("%s: answered %s, %v after %d migrations", c.event, answer, err, st.ups)
		}
		last := st.answers[len(st.answers)-1]
		if last.Status != cfn.StatusSuccess || last.PhysicalResourceID != physicalID || last.LogicalResourceID != "Migration" ||
			last.RequestID == "" || last.StackID == "" || last.Reason != "" {
			t.Errorf("%s: the stack got %+v", c.event, last)
		}
	}
	if len(st.seeds) != 1 || st.seeds[0] != (app.Seeds{Owner: "you@example.com"}) {
		t.Errorf("seeds %v", st.seeds)
	}
}

func TestMigrateMakesTheFirstOwner(t *testing.T) {
	st := newStack(t, nowhere)
	for payload, want := range map[string]string{
		`{"owner":"you@example.com"}`: `{"schema":{"to":6},"owner":"made"}`,
		`{"owner":"two@example.com"}`: `{"schema":{"to":6},"owner":"there is one already"}`,
		`{"owner":""}`:                `{"schema":{"to":6}}`,
		`{"owner":null}`:              `{"schema":{"to":6}}`,
	} {
		if answer, err := st.handler(invocation(t), []byte(payload)); err != nil || string(answer) != want {
			t.Errorf("%s: answered %s, %v", payload, answer, err)
		}
	}
	done := st.ups
	for _, payload := range []string{`{"owner":"hunter2"}`, `{"owner":1}`, `{"owner":"a@b.example","Owner":""}`} {
		answer, err := st.handler(invocation(t), []byte(payload))
		if f := failed(t, answer, err); f.Type != "InvalidEvent" || strings.Contains(f.Message, "hunter2") {
			t.Errorf("%s: told %+v", payload, f)
		}
	}
	if st.ups != done {
		t.Error("what was refused was migrated all the same")
	}
	if strings.Contains(st.log.String(), "example.com") {
		t.Errorf("the log has an address: %s", st.log)
	}
}

// The stack receives every failure, and no secret.
func TestStackHearsOfFailures(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		up      func(context.Context) error
		reason  string
	}{
		"configuration": {[]string{"LOG_LEVEL=info"}, nil, "DATABASE_URL is missing"},
		"database": {[]string{nowhere}, func(context.Context) error {
			return fmt.Errorf("connect with hunter2: %w", db.ErrUnavailable)
		}, "can't be reached"},
		"migration": {[]string{nowhere}, func(context.Context) error { return errors.New("0007_x.sql: " + strings.Repeat("x", 9999)) }, "0007_x.sql"},
		"panic":     {[]string{nowhere}, func(context.Context) error { panic("hunter2") }, "internal error"},
		"time": {[]string{nowhere}, func(ctx context.Context) error {
			<-ctx.Done() // ends before the invocation does
			return fmt.Errorf("wait for the lock: %w", ctx.Err())
		}, "time of the invocation"},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStack(t, c.environ...)
			st.up = c.up
			if name == "time" {
				inner := st.handler
				st.handler = func(ctx context.Context, payload []byte) ([]byte, error) {
					// 2 s are reserved for the response
					ctx, cancel := context.WithTimeout(ctx, 2*time.Second+50*time.Millisecond)
					defer cancel()
					return inner(ctx, payload)
				}
			}
			answer, err := st.ask("02_custom_resource_create")
			if err != nil || !strings.Contains(string(answer), "FAILED") || len(st.answers) != 1 {
				t.Fatalf("answered %s, %v; the stack got %+v", answer, err, st.answers)
			}
			got := st.answers[0]
			if got.Status != cfn.StatusFailed || got.PhysicalResourceID == "" || !strings.Contains(got.Reason, c.reason) ||
				strings.Contains(got.Reason, "hunter2") || len(got.Reason) > 2000 {
				t.Errorf("the stack got %+v", got)
			}
		})
	}
}

func TestAnswerThatTheStackDoesNotTake(t *testing.T) {
	st := newStack(t, nowhere)
	st.status = http.StatusForbidden
	answer, err := st.ask("03_custom_resource_delete")
	if f := failed(t, answer, err); f.Type != "Internal" {
		t.Errorf("told %+v", f)
	}
	for _, url := range []string{"http://127.0.0.1:1/hunter2", ":hunter2"} {
		st.url = url
		answer, err := st.ask("03_custom_resource_delete")
		if f := failed(t, answer, err); strings.Contains(f.Message, "hunter2") {
			t.Errorf("told %+v", f)
		}
	}
	if strings.Contains(st.log.String(), "hunter2") {
		t.Errorf("the log has the signed URL: %s", st.log)
	}
}

func TestMigrateRefusesOtherEvents(t *testing.T) {
	st := newStack(t, nowhere)
	for payload, field := range map[string]string{
		``: "", `[]`: "", `{"to":3}`: "to", `{"RequestType":"Create"}`: "RequestType",
		`{"ResponseURL":1}`: "", `{"RequestType":{},"ResponseURL":"x"}`: "",
	} {
		answer, err := st.handler(invocation(t), []byte(payload))
		if f := failed(t, answer, err); f.Type != "InvalidEvent" || !strings.Contains(f.Message, field) {
			t.Errorf("%s: told %+v", payload, f)
		}
	}
	if _, err := st.handler(invocation(t), []byte(`{"RequestType":"Recreate","ResponseURL":"`+st.url+`"}`)); err != nil {
		t.Error(err)
	}
	if st.ups != 0 || len(st.answers) != 1 || st.answers[0].Status != cfn.StatusFailed {
		t.Errorf("%d migrations, answers %+v", st.ups, st.answers)
	}
}

func TestStartMigrateElsewhere(t *testing.T) {
	if err := StartMigrate(NewSandbox(nil, io.Discard, nil), Migration[result]{}); !errors.Is(err, errNotOnLambda) {
		t.Errorf("got %v", err)
	}
}

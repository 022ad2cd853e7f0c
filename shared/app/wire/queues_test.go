package wire_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// coreOn returns the core of a process on a laptop.
func coreOn(e dbtest.Env) *app.Core {
	return app.NewCore(e.DB, app.Config{LLMProvider: "demo"}, slog.New(slog.DiscardHandler), func(context.Context) (awssdk.Config, error) {
		return awssdk.Config{}, errors.New("no AWS here")
	})
}

// agentOn returns the surfaces of a process on a laptop.
func agentOn(t testing.TB, e dbtest.Env) *wire.Surfaces {
	t.Helper()
	core := coreOn(e)
	a, err := wire.New(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestALongWaitIsTold: followers of the workspace get an event about a long wait. Closed surfaces
// admit no further jobs.
func TestALongWaitIsTold(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a := agentOn(t, e)
	ctx, cancel := context.WithTimeout(trace.WithWorkspace(t.Context(), string(e.Workspace)), 2500*time.Millisecond)
	defer cancel()
	never := func(context.Context) (int, error) { return 0, errors.New("it has the lane's only place") }
	_, err := queue.Do(t.Context(), a.Reason.Queues, queue.Job{Queue: "cron"}, func(context.Context) (int, error) {
		_, err := queue.Do(ctx, a.Reason.Queues, queue.Job{Queue: "cron", Class: queue.User}, never) // another chain
		return 0, err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	told, _, err := a.Events.Read(t.Context(), e.Workspace, event.Cursor{}, []string{"queue.waiting"}, 10)
	if err != nil || len(told) != 1 || told[0].Subject != "cron" {
		t.Errorf("told %+v, %v", told, err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := queue.Do(t.Context(), a.Reason.Queues, queue.Job{}, never); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestALongWaitForALaneIsTold once, while it lasts, with who holds the lane.
func TestALongWaitForALaneIsTold(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a := agentOn(t, e)
	ask := func(wait time.Duration, holder lane.Holder) (*lane.Hold, error) {
		return a.Lanes.Take(t.Context(), lane.Request{Workspace: e.Workspace, Lane: "operate", Holder: holder, TTL: time.Minute}, lane.Wait{Limit: wait}, nil)
	}
	if _, err := ask(0, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(lane.WarnAfter+3*time.Second, "bob"); err == nil {
		t.Fatal("two hold it")
	}
	told, _, err := a.Events.Read(t.Context(), e.Workspace, event.Cursor{}, []string{"lane.wait_warning"}, 10)
	if err != nil || len(told) != 1 || told[0].Subject != "operate" || !strings.Contains(string(told[0].Data), `"holder":"ada"`) {
		t.Errorf("told %+v, %v", told, err)
	}
}

// TestTheAgentSpeaks: an execution sends over a wired channel, and releases the thread when it
// ends.
func TestTheAgentSpeaks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		a := agentOn(t, e)
		say := func(channel, address string) (string, execution.StepStatus) {
			t.Helper()
			th, err := a.Threads.Open(t.Context(), e.Workspace, thread.Thread{Channel: channel, Address: address})
			if err != nil {
				t.Fatal(err)
			}
			ctx := trace.With(t.Context(), "op_0mh8c1v2q_a7x2p1k9d4")
			used, err := a.Operate.RunSkill(ctx, e.Workspace, "send_message", fmt.Appendf(nil, `{"threadId": %q, "body": "Hello"}`, th.ID), operate.ByHand{Person: true})
			if err != nil {
				t.Fatal(err)
			}
			return th.ID, used.Status
		}
		if _, status := say("operate", "ada"); status != execution.Errored {
			t.Errorf("where nobody hears it: %s", status)
		}
		th, status := say("log", "ada")
		if status != execution.Succeeded {
			t.Fatal(status)
		}
		if held, err := a.Threads.Get(t.Context(), e.Workspace, th); err != nil || held.Lock.Holder != "" {
			t.Errorf("the thread is %+v, %v", held, err)
		}
		a.Tender.Tend(t.Context(), e.Workspace)
		spoken, _, err := a.Threads.Messages(t.Context(), e.Workspace, th, 0, 10)
		if err != nil || len(spoken) != 1 || spoken[0].Body != "Hello" || spoken[0].Role != thread.Assistant {
			t.Errorf("said %+v, %v", spoken, err)
		}
	})
}

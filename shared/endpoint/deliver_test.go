package endpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// TestAChangeIsTold: a task's change reaches the endpoint that wants it, signed, once, and is recorded.
func TestAChangeIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r, other := receive(t, nil), receive(t, nil)
		e, key := w.add(t, r.URL, endpoint.TaskStatusChanged)
		w.add(t, other.URL, endpoint.AgentStale, endpoint.BudgetExhausted)
		id := w.task(t, "Bake bread", "ASSIGNED")
		if len(r.requests()) != 0 {
			t.Fatal("it was sent before it was drained")
		}
		if sent := w.send(t); sent.Sent != 1 || len(other.requests()) != 0 {
			t.Fatalf("%+v", sent)
		}
		all := r.requests()
		if len(all) != 1 {
			t.Fatalf("%d requests", len(all))
		}
		source := inbox.Source{Kind: inbox.Standard}
		if err := source.Verify(inbox.Request{Header: all[0].header, Body: all[0].body}, []secret.Value{key}, time.Now()); err != nil {
			t.Error(err)
		}
		var body struct{ Event, TaskID, Title, PreviousStatus, NewStatus, WorkspaceID, TraceID, Timestamp string }
		if err := json.Unmarshal(all[0].body, &body); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, body.Timestamp)
		if err != nil || time.Since(at).Abs() > time.Minute || body.Event != endpoint.TaskStatusChanged || body.TaskID != id || body.Title != "Bake bread" ||
			body.PreviousStatus != "PENDING" || body.NewStatus != "ASSIGNED" || body.WorkspaceID != string(w.Workspace) || body.TraceID != all[0].header.Get("X-Trace-Id") {
			t.Errorf("%s, %v, trace %s", all[0].body, err, all[0].header.Get("X-Trace-Id"))
		}
		d := w.deliveries(t)
		if len(d) != 1 || d[0].Endpoint != e.ID || d[0].Status != endpoint.Delivered || d[0].StatusCode != 204 || d[0].Attempt != 1 || d[0].NextAt != nil ||
			d[0].WebhookID != all[0].header.Get("Webhook-Id") || !strings.HasPrefix(d[0].WebhookID, "msg_") || string(d[0].Trace) != body.TraceID || d[0].Subject != id {
			t.Errorf("%+v", d)
		}
		if again := w.send(t); again.Claimed != 0 {
			t.Errorf("%+v", again)
		}
		for id, want := range map[string]int{strings.ToUpper(e.ID): 1, id: 0, "none": 0} {
			of, err := w.s.Deliveries(t.Context(), w.Workspace, endpoint.Filter{Endpoint: id, Limit: 10})
			if err != nil || len(of) != want {
				t.Errorf("%d deliveries to %s, %v", len(of), id, err)
			}
		}
	})
}

// TestTheOrderOfATaskHolds: while a delivery waits for its next attempt, those of its task that came
// later wait too, and those of other tasks and endpoints do not.
func TestTheOrderOfATaskHolds(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var first string
		r := receive(t, func(n int, req *http.Request, rw http.ResponseWriter) {
			if n == 1 {
				rw.WriteHeader(http.StatusInternalServerError)
			}
		})
		second := receive(t, nil)
		w.add(t, r.URL, endpoint.All)
		first = w.task(t, "first", "ASSIGNED")
		w.send(t)
		w.add(t, second.URL, endpoint.All)
		w.become(t, first, "RUNNING", "COMPLETED")
		other := w.task(t, "other", "ASSIGNED")
		w.send(t)
		told := func(of *receiver) (out []string) {
			for _, g := range of.requests() {
				var body struct{ TaskID, NewStatus string }
				if err := json.Unmarshal(g.body, &body); err != nil {
					t.Fatal(err)
				}
				out = append(out, map[string]string{first: "first ", other: "other "}[body.TaskID]+body.NewStatus)
			}
			return out
		}
		if is := strings.Join(told(r), ", "); is != "first ASSIGNED, other ASSIGNED" {
			t.Errorf("told: %s", is)
		}
		w.Skew.Advance(6 * time.Second)
		w.send(t)
		if is := strings.Join(told(r)[2:], ", "); is != "first ASSIGNED, first RUNNING, first COMPLETED" {
			t.Errorf("told: %s", is)
		}
		var ofFirst []string
		for _, is := range told(second) {
			if strings.HasPrefix(is, "first") {
				ofFirst = append(ofFirst, is)
			}
		}
		if is := strings.Join(ofFirst, ", "); is != "first RUNNING, first COMPLETED" {
			t.Errorf("the other endpoint was told: %s", is)
		}
	})
}

// TestWhatWaitsForAnotherIsNotDue: while a delivery waits for its next attempt, those of its task are not
// looked at. Once it has ended, they are due at once.
func TestWhatWaitsForAnotherIsNotDue(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := receive(t, func(n int, _ *http.Request, rw http.ResponseWriter) {
			if n == 1 {
				rw.WriteHeader(http.StatusInternalServerError)
			}
		})
		w.add(t, r.URL, endpoint.All)
		w.task(t, "first", "ASSIGNED", "RUNNING", "COMPLETED")
		w.send(t)
		rows, _, err := w.outbox.List(t.Context(), w.Workspace, outbox.Filter{Topic: endpoint.Topic, Status: outbox.Ready})
		if err != nil || len(rows) != 3 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, row := range rows {
			if row.DueAt.Sub(row.CreatedAt) < 5*time.Second {
				t.Errorf("row %d is due after %s", row.Seq, row.DueAt.Sub(row.CreatedAt))
			}
		}
		w.exec(t, w.q.DueFirst)
		if sent := w.send(t); sent.Sent != 3 || len(r.requests()) != 4 {
			t.Errorf("%+v", sent)
		}
	})
}

// locked is a key service that can't be reached.
type locked struct{ secret.Keeper }

func (locked) Unwrap(context.Context, string, []byte, secret.Place) ([]byte, error) {
	return nil, errors.New("the key service can't be reached")
}

// TestAnOutageOfTheKeyServiceCostsNoAttempt: what could not be signed is sent once it can be.
func TestAnOutageOfTheKeyServiceCostsNoAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := receive(t, nil)
		w.add(t, r.URL, endpoint.All)
		w.task(t, "x", "ASSIGNED")
		works := w.to
		secrets, err1 := secret.New(w.DB, locked{w.keeper})
		s, err2 := endpoint.New(w.DB, secrets, w.outbox, ids)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		w.to = &endpoint.Deliverer{Store: s, Sender: works.Sender, Random: half, Log: works.Log}
		for range 12 {
			w.send(t)
			w.Skew.Advance(6 * time.Minute)
		}
		if got := w.sendings(t); got["ready"] != 1 || len(w.deliveries(t)) != 0 {
			t.Fatalf("rows: %v", got)
		}
		w.to = works
		if sent := w.send(t); sent.Sent != 1 || w.deliveries(t)[0].Attempt != 1 {
			t.Errorf("%+v", sent)
		}
	})
}

// TestAnEndOfTheSenderIsNoFailureOfTheReceiver: a request that the sender itself cuts off is sent again,
// and is not counted against the endpoint.
func TestAnEndOfTheSenderIsNoFailureOfTheReceiver(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r := receive(t, func(n int, req *http.Request, _ http.ResponseWriter) {
			if n == 1 {
				stop()
				<-req.Context().Done()
			}
		})
		e, _ := w.add(t, r.URL, endpoint.All)
		w.task(t, "x", "ASSIGNED")
		_, _ = w.sender().Drain(ctx, w.Workspace, 10) // the error says that the context has ended
		if is := w.get(t, e.ID); is.Failures != 0 || len(w.deliveries(t)) != 0 {
			t.Errorf("%d failures", is.Failures)
		}
		w.Skew.Advance(2 * time.Second)
		if sent := w.send(t); sent.Sent != 1 {
			t.Errorf("%+v", sent)
		}
	})
}

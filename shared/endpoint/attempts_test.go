package endpoint_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// answering is a receiver that always answers with one status.
func answering(status int, header ...string) func(int, *http.Request, http.ResponseWriter) {
	return func(_ int, _ *http.Request, w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
	}
}

// TestADeliveryThatFailsForGood: it is tried ten times within 24 hours under one id, then the next of
// its task would go on; but its endpoint, which has accepted nothing since, is disabled, and what was
// due is dead. Enabled by a person, it is told of what happens from then on.
func TestADeliveryThatFailsForGood(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := receive(t, answering(http.StatusServiceUnavailable))
		e, _ := w.add(t, r.URL, endpoint.All)
		id := w.task(t, "x", "ASSIGNED", "RUNNING")
		for range 40 {
			w.send(t)
			w.Skew.Advance(time.Hour)
		}
		all := w.deliveries(t)
		if len(all) != 10 || len(r.requests()) != 10 {
			t.Fatalf("%d attempts, %d requests", len(all), len(r.requests()))
		}
		for i, d := range all {
			if d.Attempt != i+1 || d.Status != endpoint.Failed || d.StatusCode != 503 || (d.NextAt == nil) != (i == 9) || d.WebhookID != all[0].WebhookID ||
				!strings.Contains(d.Error, "503") {
				t.Errorf("%+v", d)
			}
		}
		if took := all[9].CreatedAt.Sub(all[0].CreatedAt); took > 25*time.Hour || took < 23*time.Hour {
			t.Errorf("it was tried for %v", took)
		}
		is := w.get(t, e.ID)
		if is.Enabled || is.DisabledReason == "" || is.Failures != 10 || is.FailingSince == nil {
			t.Errorf("%+v", is)
		}
		if got := w.sendings(t); got["failed"] != 1 || got["dead"] != 1 || len(got) != 2 {
			t.Errorf("rows: %v", got)
		}
		w.become(t, id, "COMPLETED") // told to nobody
		is.Enabled, r.answer = true, nil
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
			is, err = w.s.Update(ctx, tx, is)
			return err
		})
		if err != nil || !is.Enabled || is.DisabledReason != "" || is.Failures != 0 || is.FailingSince != nil {
			t.Fatalf("%+v, %v", is, err)
		}
		w.task(t, "y", "ASSIGNED")
		if sent := w.send(t); sent.Sent != 1 || len(r.requests()) != 11 {
			t.Errorf("%+v", sent)
		}
	})
}

// TestAnEndpointThatAcceptsSomethingStays: one delivery that it refuses for a day fails, and no more.
func TestAnEndpointThatAcceptsSomethingStays(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var bad string
		r := receive(t, nil)
		r.answer = func(n int, _ *http.Request, rw http.ResponseWriter) {
			if strings.Contains(string(r.requests()[n-1].body), bad) {
				rw.WriteHeader(http.StatusBadRequest)
			}
		}
		e, _ := w.add(t, r.URL, endpoint.All)
		bad = w.task(t, "bad", "ASSIGNED", "RUNNING")
		w.send(t)
		good := w.task(t, "good", "ASSIGNED")
		for range 26 {
			w.send(t)
			w.Skew.Advance(time.Hour)
		}
		_ = good
		if got := w.sendings(t); got["failed"] != 1 || got["sent"] != 1 || got["ready"] != 1 {
			t.Errorf("rows: %v", got) // the second of the bad task is being tried by now
		}
		if is := w.get(t, e.ID); !is.Enabled || is.FailingSince == nil {
			t.Errorf("%+v", is)
		}
	})
}

// TestGoneDisables: 410 disables an endpoint at once.
func TestGoneDisables(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := receive(t, answering(http.StatusGone))
		e, _ := w.add(t, r.URL, endpoint.All)
		w.task(t, "x", "ASSIGNED", "RUNNING", "COMPLETED")
		w.send(t)
		if is := w.get(t, e.ID); is.Enabled || !strings.Contains(is.DisabledReason, "410") {
			t.Errorf("%+v", is)
		}
		if got := w.sendings(t); got["dead"] != 3 || len(got) != 1 || len(r.requests()) != 1 || len(w.deliveries(t)) != 1 {
			t.Errorf("rows: %v, %d requests", got, len(r.requests()))
		}
	})
}

// TestOnlyTwoHundredsAreSuccesses: a redirect is neither followed nor a success; Retry-After delays; a
// long answer is not read to its end; no answer is a failure.
func TestOnlyTwoHundredsAreSuccesses(t *testing.T) {
	w := newWorld(t, dbNew(t))
	w.to.Sender.Timeout = 300 * time.Millisecond
	elsewhere := receive(t, nil)
	done := make(chan struct{})
	defer close(done)
	for _, c := range []struct {
		name   string
		answer func(int, *http.Request, http.ResponseWriter)
		status int
		error  string
		next   time.Duration
	}{
		{"redirect", answering(http.StatusTemporaryRedirect, "Location", elsewhere.URL), 307, "redirects are not followed", 5 * time.Second},
		{"moved", answering(http.StatusMovedPermanently, "Location", elsewhere.URL), 301, "redirects are not followed", 5 * time.Second},
		{"not modified", answering(http.StatusNotModified), 304, "redirects are not followed", 5 * time.Second},
		{"busy", answering(http.StatusTooManyRequests, "Retry-After", "120"), 429, "429", 2 * time.Minute},
		{"client error", answering(http.StatusNotFound), 404, "404", 5 * time.Second},
		{"hangs", func(_ int, r *http.Request, _ http.ResponseWriter) {
			select {
			case <-done:
			case <-r.Context().Done():
			}
		}, 0, "no answer within", 5 * time.Second},
		{"long answer", func(_ int, _ *http.Request, rw http.ResponseWriter) {
			for range 100 {
				if _, err := rw.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, 200, "", 0},
	} {
		r := receive(t, c.answer)
		e, _ := w.add(t, r.URL, endpoint.All)
		w.task(t, c.name, "ASSIGNED")
		w.send(t)
		found, err := w.s.Deliveries(t.Context(), w.Workspace, endpoint.Filter{Endpoint: e.ID, Limit: 10})
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %+v, %v", c.name, found, err)
		}
		d := found[0]
		if d.StatusCode != c.status || !strings.Contains(d.Error, c.error) || (d.Error == "") != (c.error == "") || (d.Status == endpoint.Delivered) != (c.error == "") {
			t.Errorf("%s: %+v", c.name, d)
		}
		if d.NextAt != nil && (d.NextAt.Sub(d.CreatedAt)-c.next).Abs() > 2*time.Second || (d.NextAt == nil) != (c.next == 0) {
			t.Errorf("%s is tried again at %v, after %v", c.name, d.NextAt, d.CreatedAt)
		}
		err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error { return w.s.Delete(ctx, tx, e.ID) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(elsewhere.requests()); n != 0 {
		t.Errorf("%d requests were redirected", n)
	}
}

// TestAnAttemptThatWasCutOffIsRecorded: it is sent again under its id, and both attempts are listed.
func TestAnAttemptThatWasCutOffIsRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := receive(t, nil)
		w.add(t, r.URL, endpoint.All)
		w.task(t, "x", "ASSIGNED")
		for range 2 { // two processes claim it and die
			_, err := w.outbox.Claim(t.Context(), outbox.Request{Workspace: w.Workspace, Topics: []string{endpoint.Topic}, Holder: "dead", Limit: 1, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			w.Skew.Advance(2 * time.Minute)
		}
		w.send(t)
		all := w.deliveries(t)
		if len(all) != 3 || all[0].Attempt+all[1].Attempt+all[2].Attempt != 6 || all[2].Status != endpoint.Delivered || all[2].Attempt != 3 ||
			!strings.Contains(all[0].Error, "cut off") || all[0].WebhookID != all[2].WebhookID {
			t.Errorf("%+v", all)
		}
	})
}

// TestRedelivery: the event is sent again with the same id, body and trace; not to a disabled endpoint.
func TestRedelivery(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := receive(t, nil)
		e, _ := w.add(t, r.URL, endpoint.All)
		w.task(t, "x", "ASSIGNED")
		w.send(t)
		d := w.deliveries(t)[0]
		again := func() error {
			return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.Redeliver(ctx, tx, d.ID)
				return err
			})
		}
		if err := again(); err != nil {
			t.Fatal(err)
		}
		w.send(t)
		all, got := w.deliveries(t), r.requests()
		if len(all) != 2 || len(got) != 2 || string(got[0].body) != string(got[1].body) || got[0].header.Get("Webhook-Id") != got[1].header.Get("Webhook-Id") ||
			all[1].Attempt != 1 || all[1].WebhookID != d.WebhookID || all[1].Trace != d.Trace || all[1].Row == d.Row {
			t.Errorf("%+v", all)
		}
		e.Enabled = false
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.Update(ctx, tx, e)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := again(); !errors.Is(err, endpoint.ErrDisabled) {
			t.Errorf("to a disabled endpoint: %v", err)
		}
		if is := w.get(t, e.ID); is.DisabledReason != "" {
			t.Errorf("%+v", is)
		}
	})
}

// TestTwoSignaturesWhileSecretsOverlap: for 24 hours requests are signed with the old secret, too.
func TestTwoSignaturesWhileSecretsOverlap(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := receive(t, nil)
		e, old := w.add(t, r.URL, endpoint.All)
		now := endpoint.NewSecret()
		d, err := w.s.SealAnew(t.Context(), w.Workspace, e, now)
		if err != nil {
			t.Fatal(err)
		}
		err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.Rotate(ctx, tx, d)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		verifies := func(g got, v secret.Value) bool {
			source := inbox.Source{Kind: inbox.Standard}
			return source.Verify(inbox.Request{Header: g.header, Body: g.body}, []secret.Value{v}, time.Now()) == nil
		}
		w.task(t, "x", "ASSIGNED")
		w.send(t)
		if g := r.requests()[0]; !verifies(g, old) || !verifies(g, now) || len(strings.Fields(g.header.Get("Webhook-Signature"))) != 2 {
			t.Errorf("signed %s", g.header.Get("Webhook-Signature"))
		}
		w.Skew.Advance(25 * time.Hour)
		w.task(t, "y", "ASSIGNED")
		w.send(t)
		if g := r.requests()[1]; verifies(g, old) || !verifies(g, now) {
			t.Errorf("a day later it is signed %s", g.header.Get("Webhook-Signature"))
		}
	})
}

// TestWhatIsRolledBackIsNotTold.
func TestWhatIsRolledBackIsNotTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.add(t, receive(t, nil).URL, endpoint.All)
		id := w.task(t, "x")
		undone := errors.New("undone")
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, w.q.SetStatus, id, "ASSIGNED"); err != nil {
				return err
			}
			return undone
		})
		if !errors.Is(err, undone) || len(w.sendings(t)) != 0 {
			t.Errorf("%v, rows: %v", err, w.sendings(t))
		}
	})
}

// TestEndpointsThatHangDelayNobody: while all other endpoints of the workspace hang, one is told.
func TestEndpointsThatHangDelayNobody(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		free, told := make(chan struct{}), make(chan struct{}, 100)
		hang := receive(t, func(_ int, _ *http.Request, rw http.ResponseWriter) { <-free; rw.WriteHeader(http.StatusOK) })
		for range endpoint.MaxEndpoints - 1 {
			w.add(t, hang.URL, endpoint.TaskStatusChanged)
		}
		for i := range 5 {
			w.task(t, strings.Repeat("x", i+1), "ASSIGNED")
		}
		w.add(t, receive(t, func(int, *http.Request, http.ResponseWriter) { told <- struct{}{} }).URL, endpoint.All)
		w.task(t, "last", "ASSIGNED")
		var sending sync.WaitGroup
		s := w.sender()
		sending.Go(func() {
			if _, err := s.Drain(t.Context(), w.Workspace, 1000); err != nil {
				t.Error(err)
			}
		})
		select {
		case <-told:
		case <-time.After(9 * time.Second): // less than the time limit of a request
			t.Error("it waits for others")
		}
		close(free)
		sending.Wait()
		if got := w.sendings(t); got["sent"] != (endpoint.MaxEndpoints-1)*6+1 {
			t.Errorf("rows: %v", got)
		}
	})
}

// TestPrivateAddressesAreRefusedAtTheDial: an endpoint whose name or address has become a private one
// is not called, and the attempt says why.
func TestPrivateAddressesAreRefusedAtTheDial(t *testing.T) {
	w := newWorld(t, dbNew(t))
	r := receive(t, nil)
	client, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.to.Sender.Client = client
	w.add(t, r.URL, endpoint.All)
	w.add(t, "http://localhost:1/", endpoint.All)
	w.task(t, "x", "ASSIGNED")
	w.send(t)
	all := w.deliveries(t)
	for _, d := range all {
		if d.Status != endpoint.Failed || d.StatusCode != 0 || !strings.Contains(d.Error, "not a public address") {
			t.Errorf("%+v", d)
		}
	}
	if len(all) != 2 || len(r.requests()) != 0 {
		t.Errorf("%d attempts, %d requests", len(all), len(r.requests()))
	}
	for _, url := range []string{"http://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/latest/", "https://[::ffff:127.0.0.1]/", "https://localhost/"} {
		err := w.to.Reachable(t.Context(), url)
		if err == nil {
			t.Errorf("%s may be registered", url)
		} else if helps := !strings.Contains(url, "169.254"); strings.Contains(err.Error(), "ALLOW_PRIVATE_HOSTS") != helps {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestEventsHaveTheirBodies: each event that endpoints can be told of reaches them under its name.
func TestEventsHaveTheirBodies(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := receive(t, nil)
		w.add(t, r.URL, endpoint.All)
		subject := ids()
		for _, e := range []struct{ kind, data, want string }{
			{"task.dependency_cycle", `{"path":["a","b","a"]}`, `"event":"task.dependency_cycle","path":["a","b","a"],"taskId":"` + subject + `"`},
			{"agent.stale", `{"name":"builder","status":"ERROR","previous_status":"WORKING"}`, `"agentId":"` + subject + `","event":"agent.stale","name":"builder","previousStatus":"WORKING"`},
			{"budget.warning", `{"consumed_micro_usd":9007199254740993,"threshold":90}`, `"budgetId":"` + subject + `","consumedMicroUsd":9007199254740993,"event":"budget.warning","threshold":90`},
			{"budget.exhausted", `{"threshold":100}`, `"event":"budget.exhausted"`},
			{"approval.requested", `{"skill":"pay"}`, `"approvalId":"` + subject + `","event":"approval.requested","skill":"pay"`},
			{"queue.waiting", `{"waited_ms":2500}`, `"event":"lane.wait_warning","lane":"` + subject + `"`},
			{"execution.completed", `{"subject":"heartbeat","status":"completed"}`, `"event":"heartbeat.completed","executionId":"` + subject + `","status":"completed"`},
			{"execution.completed", `{"subject":"objective:1","status":"completed"}`, ""},
			{"execution.started", `{"subject":"heartbeat"}`, ""},
			{"memory.saved", `{}`, ""},
		} {
			before := len(r.requests())
			w.exec(t, w.q.Tell, e.kind, subject, e.data)
			w.send(t)
			got := r.requests()[before:]
			switch {
			case e.want == "" && len(got) == 0:
			case e.want == "" || len(got) != 1:
				t.Errorf("%s %s: %d requests", e.kind, e.data, len(got))
			default:
				body := string(got[0].body)
				for _, part := range strings.Split(e.want, ",\"") {
					if !strings.Contains(body, strings.TrimPrefix(part, `"`)) {
						t.Errorf("%s: %s lacks %s", e.kind, body, part)
					}
				}
				if got[0].header.Get("X-Trace-Id") != "hb_0mh8c1v2q_a7x2p1k9d4" || !strings.Contains(body, `"traceId":"hb_0mh8c1v2q_a7x2p1k9d4"`) {
					t.Errorf("%s: %s of trace %s", e.kind, body, got[0].header.Get("X-Trace-Id"))
				}
			}
		}
	})
}

package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

type beaten struct {
	Report               *heartbeat.Report
	ExecutionID, TraceID string
}

const beat = "/api/v1/heartbeat/run"

func TestBeatByHand(t *testing.T) {
	var ticks []heartbeat.Tick
	release := make(chan struct{})
	w := onOne(t, func(d *api.Deps) {
		answer := d.Beat
		d.Beat = func(ctx context.Context, tick heartbeat.Tick) (heartbeat.Report, error) {
			ticks = append(ticks, tick)
			if len(ticks) == 1 {
				close(tick.Begun)
				<-release // the first heartbeat continues after its response
			}
			return answer(ctx, tick)
		}
	})
	var now beaten
	got := w.must(t, http.StatusAccepted, http.MethodPost, beat, ``, &now)
	if now.Report != nil || now.ExecutionID == "" || now.TraceID == "" || got.header.Get("X-Trace-Id") != now.TraceID {
		t.Errorf("%+v with X-Trace-Id %s", now, got.header.Get("X-Trace-Id"))
	}
	close(release)
	w.later.Wait()

	var done beaten
	w.must(t, http.StatusOK, http.MethodPost, beat, `{"wait":true}`, &done)
	if done.Report == nil || done.Report.Outcome != heartbeat.Completed {
		t.Errorf("%+v", done)
	}
	for i, b := range []beaten{now, done} {
		want := heartbeat.Tick{
			Workspace: w.Workspace, Full: true, Wait: time.Minute, ExecutionID: b.ExecutionID, Trace: trace.ID(b.TraceID),
		}
		if i == 0 {
			want.Wait, want.Begun = 0, ticks[0].Begun
		}
		if ticks[i] != want {
			t.Errorf("tick %d is %+v, want %+v", i, ticks[i], want)
		}
		if _, info, err := trace.Parse(b.TraceID); err != nil || info.Surface != trace.Heartbeat {
			t.Errorf("trace %s: %v", b.TraceID, err)
		}
	}
}

func TestBeatUnderTheCallersTrace(t *testing.T) {
	w := onOne(t)
	mine := w.Traces.New(trace.Operate)
	r := request(http.MethodPost, beat, owner, `{"wait":true}`)
	r.Header.Set("X-Trace-Id", string(mine))
	got := w.send(t, r)
	var b beaten
	decode(t, got.body, &b)
	if b.TraceID != string(mine) || got.header.Get("X-Trace-Id") != string(mine) {
		t.Errorf("%+v, %s", b, got.header.Get("X-Trace-Id"))
	}
}

func TestSkippedBeat(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w = newWorld(t, w.Env, func(d *api.Deps) {
			d.Beat = func(context.Context, heartbeat.Tick) (heartbeat.Report, error) {
				return heartbeat.Report{Outcome: heartbeat.Skipped, Holder: "ada", Reason: "a person works in operate", Phases: []heartbeat.Phase{}}, nil
			}
		})
		p := w.refused(t, http.StatusConflict, "busy", http.MethodPost, beat, `{"wait":true}`)
		if p.Holder != "ada" || p.ExpiresAt != nil || !strings.HasSuffix(p.Detail, "a person works in operate") {
			t.Errorf("given back meanwhile: %+v", p)
		}
		h, err := w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Operate, Holder: "ada", TTL: 90 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var q problem
		got := w.must(t, http.StatusConflict, http.MethodPost, beat, `{"wait":true}`, &q)
		if q.Holder != "ada" || q.ExpiresAt == nil || !q.ExpiresAt.Equal(h.Until()) || !about(got.retryAfter(), 90*time.Second) {
			t.Errorf("%+v, Retry-After %s", q, got.header.Get("Retry-After"))
		}
		if p := w.refused(t, http.StatusConflict, "busy", http.MethodPost, beat, `{}`); p.Holder != "ada" {
			t.Errorf("who does not wait: %+v", p)
		}
	})
}

func TestABeatUnderAKillSwitchSaysSo(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		d.Beat = func(context.Context, heartbeat.Tick) (heartbeat.Report, error) {
			return heartbeat.Report{Outcome: heartbeat.Skipped, Reason: "a kill switch stops the workspace", Phases: []heartbeat.Phase{}}, nil
		}
	})
	p := w.refused(t, http.StatusConflict, "stopped", http.MethodPost, beat, `{"wait":true}`)
	if !strings.HasSuffix(p.Detail, "a kill switch stops the workspace") || p.Holder != "" || p.ExpiresAt != nil {
		t.Errorf("%+v", p)
	}
}

func TestFailedBeat(t *testing.T) {
	thrown := false
	w := onOne(t, func(d *api.Deps) {
		d.Beat = func(context.Context, heartbeat.Tick) (heartbeat.Report, error) {
			if thrown {
				panic("boom")
			}
			return heartbeat.Report{}, errors.New("secret detail")
		}
	})
	p := w.refused(t, http.StatusInternalServerError, "internal", http.MethodPost, beat, `{"wait":true}`)
	if p.Detail == "" || len(p.Errors) > 0 {
		t.Errorf("%+v", p)
	}
	w.refused(t, http.StatusInternalServerError, "internal", http.MethodPost, beat, `{"wait":false}`)
	w.later.Wait()
	thrown = true
	named := w.call(t, http.MethodPost, beat, owner, ``)
	if named.status != http.StatusInternalServerError {
		t.Errorf("after a panic: %d %s", named.status, named.body)
	}
	w.later.Wait()
	if failed := w.logs.lines(t, "a beat by hand failed"); len(failed) != 1 {
		t.Errorf("log: %v", failed)
	}
	if panicked := w.logs.lines(t, "a beat by hand panicked"); len(panicked) != 1 || panicked[0]["trace_id"] != named.header.Get("X-Trace-Id") {
		t.Errorf("log: %v", panicked)
	}
}

// TestABeatByHandThatNeverBeganIsBegun: its process died before it stored the beat. A repeated request begins it as soon as
// a living process would have begun it, which may first have waited for the lane.
func TestABeatByHandThatNeverBeganIsBegun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var begun []string
		down := true
		w = newWorld(t, w.Env, func(d *api.Deps) {
			answer := d.Beat
			d.Beat = func(ctx context.Context, tick heartbeat.Tick) (heartbeat.Report, error) {
				if down {
					return heartbeat.Report{}, errors.New("the process dies")
				}
				begun = append(begun, tick.ExecutionID)
				if tick.Begun != nil {
					close(tick.Begun)
				}
				return answer(ctx, tick)
			}
		})
		for body, want := range map[string]int{`{}`: 202, `{"wait":true}`: 200} {
			send := func() result {
				got := w.callWith(t, http.MethodPost, beat, owner, body, "Idempotency-Key", "k"+body)
				w.later.Wait()
				return got
			}
			begun, down = nil, true
			if got := send(); got.status != 500 {
				t.Errorf("%s of a process that dies: %d %s", body, got.status, got.body)
			}
			down = false
			if _, err := w.Deps.DB.Exec(t.Context(), w.Workspace, idempotencyQueries(t).ClaimKeys); err != nil {
				t.Fatal(err)
			}
			for _, passed := range []time.Duration{0, time.Minute} {
				w.Skew.Advance(passed)
				if got := send(); got.status != 409 || !strings.Contains(string(got.body), `"code":"in_progress"`) {
					t.Errorf("%s while it may wait for its lane: %d %s", body, got.status, got.body)
				}
			}
			w.Skew.Advance(20 * time.Second)
			var named beaten
			if got := send(); got.status != want || json.Unmarshal(got.body, &named) != nil || len(begun) != 1 || named.ExecutionID != begun[0] {
				t.Errorf("%s later: %d %s, begun %q", body, got.status, got.body, begun)
			}
		}
	})
}

// TestABeatByHandIsBegunOnce: a request that is repeated with its key after its process died learns what became of the
// beat, which goes on in another process.
func TestABeatByHandIsBegunOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		beats := 0
		w = newWorld(t, w.Env, func(d *api.Deps) {
			answer := d.Beat
			d.Beat = func(ctx context.Context, tick heartbeat.Tick) (heartbeat.Report, error) {
				beats++
				request := lane.Request{Workspace: tick.Workspace, Lane: lane.Heartbeat, Holder: "beat"}
				err := w.Lanes.Do(ctx, request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
					return w.Lanes.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error {
						e := execution.Execution{
							ID: tick.ExecutionID, Agent: "flowpilot", Surface: trace.Heartbeat, Trace: tick.Trace, Subject: lane.Heartbeat, Attempt: 1,
						}
						if err := w.Runs.Start(tx, e); err != nil {
							return err
						}
						return w.Runs.Leave(tx, e, execution.Completed, nil, "")
					})
				})
				if err != nil {
					return heartbeat.Report{}, err
				}
				return answer(ctx, tick)
			}
		})
		for body, again := range map[string]int{`{}`: 202, `{"wait":true}`: 409} {
			send := func() (status int, b beaten) {
				got := w.callWith(t, http.MethodPost, beat, owner, body, "Idempotency-Key", "k"+body)
				decode(t, got.body, &b)
				return got.status, b
			}
			beats = 0
			_, first := send()
			w.later.Wait()
			for _, q := range []db.Query{idempotencyQueries(t).LoseAnswers, idempotencyQueries(t).HoldKeys} {
				if _, err := w.Deps.DB.Exec(t.Context(), w.Workspace, q); err != nil {
					t.Fatal(err)
				}
			}
			status, second := send()
			w.later.Wait()
			if status != again || second.ExecutionID != first.ExecutionID || first.ExecutionID == "" || beats != 1 ||
				again == 202 && second.TraceID != first.TraceID {
				t.Errorf("%s: first %+v, then %d %+v in %d beats", body, first, status, second, beats)
			}
		}
	})
}

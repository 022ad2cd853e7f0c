package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

type held struct {
	Lane, Token, WantedBy string
	WantedAt              *time.Time
	Fence                 int64
	ExpiresAt             time.Time
}

func decode(t testing.TB, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}

func lanes(name, verb string) string { return "/api/v1/lanes/" + name + "/" + verb }

func proof(token string) string { return fmt.Sprintf(`{"token":%q}`, token) }

func about(got, want time.Duration) bool { return (got - want).Abs() < 15*time.Second }

func TestLaneByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var first held
		w.must(t, 200, http.MethodPost, lanes("build", "acquire"), `{"holder":"agent-7"}`, &first)
		if first.Lane != "build" || first.Token == "" || first.Fence == 0 || !about(time.Until(first.ExpiresAt), 300*time.Second) {
			t.Errorf("acquired %+v", first)
		}
		var p problem
		got := w.must(t, 409, http.MethodPost, lanes("build", "acquire"), `{"holder":"agent-7","ttlSeconds":10}`, &p)
		if p.Code != "busy" || p.Holder != "agent-7" || !p.ExpiresAt.Equal(first.ExpiresAt) || !about(got.retryAfter(), 300*time.Second) {
			t.Errorf("refused with %+v, Retry-After %s", p, got.header.Get("Retry-After"))
		}
		if strings.Contains(string(got.body), first.Token) {
			t.Error("the refusal tells the token")
		}

		w.Skew.Advance(4 * time.Minute)
		var kept held
		w.must(t, 200, http.MethodPost, lanes("build", "renew"), fmt.Sprintf(`{"token":%q,"ttlSeconds":3600}`, strings.ToUpper(first.Token)), &kept)
		if kept.Fence != first.Fence || kept.Token != "" || !about(kept.ExpiresAt.Sub(first.ExpiresAt), 59*time.Minute) {
			t.Errorf("renewed %+v of %+v", kept, first)
		}

		var ended struct{ Released bool }
		w.must(t, 200, http.MethodPost, lanes("build", "release"), proof(first.Token), &ended)
		if !ended.Released {
			t.Error("not released")
		}
		for _, verb := range []string{"renew", "release"} { // a hold that has ended cannot be used again
			if p := w.refused(t, 409, "lost", http.MethodPost, lanes("build", verb), proof(first.Token)); p.Title != "Lost" {
				t.Errorf("%+v", p)
			}
		}
		var second held
		w.must(t, 200, http.MethodPost, lanes("build", "acquire"), `{"holder":"agent-8","ttlSeconds":1}`, &second)
		if second.Fence <= first.Fence || !about(second.ExpiresAt.Sub(first.ExpiresAt), -time.Minute) {
			t.Errorf("then acquired %+v", second)
		}
		w.refused(t, 409, "lost", http.MethodPost, lanes("build", "release"), proof(first.Token))
		w.Skew.Advance(2 * time.Second)
		w.refused(t, 409, "lost", http.MethodPost, lanes("build", "renew"), proof(second.Token))
	})
}

// A hold that is acquired over HTTP lasts exactly as long as requested, whatever the default of its
// lane.
func TestHoldsAreNotShortened(t *testing.T) {
	w := onOne(t)
	for _, name := range []string{"coordinator", "memory:flowpilot", "heartbeat"} {
		var h held
		w.must(t, 200, http.MethodPost, lanes(name, "acquire"), `{"holder":"h","ttlSeconds":3600}`, &h)
		if !about(time.Until(h.ExpiresAt), time.Hour) {
			t.Errorf("%s ends in %s", name, time.Until(h.ExpiresAt))
		}
	}
}

func TestLaneNamesInPaths(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for path, name := range map[string]string{
			"objective:42":             "objective:42",
			"objective%3A43":           "objective:43",
			"repo%2Fmain%2F%2F..%2Fx":  "repo/main//../x",
			"a%20b":                    "", // a name has no spaces
			"a+b@c._-":                 "a+b@c._-",
			"%2e%2e":                   "",
			strings.Repeat("n", 200):   strings.Repeat("n", 200),
			strings.Repeat("n", 201):   "",
			url.PathEscape("größe"):    "",
			url.PathEscape("a\x00b"):   "",
			url.PathEscape("a\xffb"):   "",
			url.PathEscape("a\nb"):     "",
			url.PathEscape("heart\tb"): "",
		} {
			if name == "" {
				p := w.refused(t, 422, "invalid", http.MethodPost, lanes(path, "acquire"), `{"holder":"h"}`)
				if !p.at("path.lane") || !strings.HasSuffix(p.Errors[0].Message, "that begin with a letter or digit") { // the whole rule
					t.Errorf("%s: %+v", path, p)
				}
				continue
			}
			var h held
			w.must(t, 200, http.MethodPost, lanes(path, "acquire"), `{"holder":"h"}`, &h)
			if h.Lane != name {
				t.Errorf("%s is lane %q", path, h.Lane)
			}
			w.must(t, 200, http.MethodGet, lanes(url.PathEscape(name), "why"), "", nil)
			w.must(t, 200, http.MethodPost, lanes(url.PathEscape(name), "release"), proof(h.Token), nil)
		}
	})
}

// The schema and the store accept the same names.
func FuzzLaneNames(f *testing.F) {
	for _, s := range []string{"a", "a/b", "-a", "objective:1", "a b", "é", "a\x00", strings.Repeat("x", 201)} {
		f.Add(s)
	}
	w := onOne(f)
	f.Fuzz(func(t *testing.T, s string) {
		path := lanes(url.PathEscape(s), "why")
		if s == "" || s == "." || s == ".." || s == "/" {
			return // the mux does not accept them as a segment
		}
		_, err := lane.ParseName(s)
		if got := w.call(t, http.MethodGet, path, owner, ""); (got.status == 200) != (err == nil) || got.status != 200 && got.status != 422 {
			t.Errorf("%q: %d, and the store says %v", s, got.status, err)
		}
	})
}

func TestListLanes(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type list struct {
			Items []struct {
				Lane, Holder, WantedBy, TraceID, ExecutionID string
				Fence, AgeMS, RemainingMS                    int64
				LockedAt, ExpiresAt                          time.Time
				WantedAt                                     *time.Time
			}
			NextCursor *string
			Queues     []struct {
				Lane                                       string
				Depth, Active, OldestMS, Completed, Failed int
				Waited                                     []struct{ UntilMS, Jobs int }
			}
		}
		ofCalls := func(l list) int {
			for i, q := range l.Queues {
				if q.Lane == reason.CallQueue {
					return i
				}
			}
			t.Fatalf("the queue of calls is not among %+v", l.Queues)
			return 0
		}
		var empty list
		got := w.must(t, 200, http.MethodGet, "/api/v1/lanes", "", &empty)
		if !strings.HasPrefix(string(got.body), `{"items":[],"nextCursor":null,"queues":[{`) {
			t.Errorf("none: %s", got.body)
		}
		_, _ = queue.Do(t.Context(), w.Operate.Reason.Queues, queue.Job{Queue: reason.CallQueue}, func(context.Context) (int, error) {
			w.must(t, 200, http.MethodGet, "/api/v1/lanes", "", &empty)
			return 0, errors.New("failed")
		})
		if q := empty.Queues[ofCalls(empty)]; q.Active != 1 || q.Failed != 0 || len(q.Waited) == 0 {
			t.Errorf("while a job is at work: %+v", q)
		}
		w.must(t, 200, http.MethodGet, "/api/v1/lanes", "", &empty)
		if q := empty.Queues[ofCalls(empty)]; q.Active != 0 || q.Failed != 1 || q.Waited[0].UntilMS != 1 {
			t.Errorf("when it has failed: %+v", q)
		}
		r := request(http.MethodPost, lanes("l0", "acquire"), owner, `{"holder":"h0"}`)
		mine := string(w.Traces.New("ch"))
		r.Header.Set("X-Trace-Id", mine)
		w.send(t, r)
		for i := 1; i < 7; i++ {
			w.Skew.Advance(time.Second)
			w.must(t, 200, http.MethodPost, lanes(fmt.Sprint("l", i), "acquire"), fmt.Sprintf(`{"holder":"h%d"}`, i), nil)
		}
		info, err := w.Lanes.Peek(t.Context(), w.Workspace, "l0")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Lanes.Want(t.Context(), w.Workspace, info, "ada"); err != nil {
			t.Fatal(err)
		}
		var all list
		w.must(t, 200, http.MethodGet, "/api/v1/lanes", "", &all)
		if len(all.Items) != 7 || all.NextCursor != nil {
			t.Fatalf("%+v", all)
		}
		l := all.Items[0]
		if l.Lane != "l0" || l.Holder != "h0" || l.TraceID != mine || l.WantedBy != "ada" || l.WantedAt == nil ||
			l.Fence == 0 || l.AgeMS < 6000 || !about(time.Duration(l.RemainingMS)*time.Millisecond, 294*time.Second) {
			t.Errorf("%+v", l)
		}
		var walked []string
		for path, pages := "/api/v1/lanes?limit=3", 0; path != ""; pages++ {
			var page list
			w.must(t, 200, http.MethodGet, path, "", &page)
			for _, item := range page.Items {
				walked = append(walked, item.Lane)
			}
			path = ""
			if page.NextCursor != nil {
				path = "/api/v1/lanes?limit=3&cursor=" + *page.NextCursor
			}
			if pages > 3 {
				t.Fatal("no end of pages")
			}
		}
		if strings.Join(walked, " ") != "l0 l1 l2 l3 l4 l5 l6" {
			t.Errorf("page by page: %v", walked)
		}
		for _, bad := range []string{"!", "bm9uZQ", "eC55"} {
			if p := w.refused(t, 422, "invalid", http.MethodGet, "/api/v1/lanes?cursor="+bad, ""); !p.at("query.cursor") {
				t.Errorf("%+v", p)
			}
		}
	})
}

type why struct {
	Lane, Summary, Holder, TraceID string
	Held                           bool
	Fence, RemainingMS             int64
	Waiting                        []struct{ Holder, Since string }
}

func TestExplainLane(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var free why
		w.must(t, 200, http.MethodGet, lanes("x", "why"), "", &free)
		if free.Held || free.Lane != "x" || !strings.Contains(free.Summary, "free") || free.Waiting == nil {
			t.Errorf("%+v", free)
		}
		var h held
		w.must(t, 200, http.MethodPost, lanes("x", "acquire"), `{"holder":"agent-7"}`, &h)
		info, err := w.Lanes.Peek(t.Context(), w.Workspace, "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Lanes.Want(t.Context(), w.Workspace, info, "ada"); err != nil {
			t.Fatal(err)
		}
		var taken why
		got := w.must(t, 200, http.MethodGet, lanes("x", "why"), "", &taken)
		if !taken.Held || taken.Holder != "agent-7" || taken.Fence != h.Fence || taken.RemainingMS == 0 || taken.TraceID == "" ||
			!strings.Contains(taken.Summary, "agent-7") || len(taken.Waiting) != 1 || taken.Waiting[0].Holder != "ada" {
			t.Errorf("%s", got.body)
		}
		var kept held
		w.must(t, 200, http.MethodPost, lanes("x", "renew"), proof(h.Token), &kept)
		if kept.WantedBy != "ada" || kept.WantedAt == nil || kept.WantedAt.Format(time.RFC3339Nano) != taken.Waiting[0].Since {
			t.Errorf("the holder is not told that somebody waits, and since when: %+v", kept)
		}
		w.must(t, 200, http.MethodPost, lanes("x", "release"), proof(h.Token), nil)
		w.must(t, 200, http.MethodGet, lanes("x", "why"), "", &free)
		if free.Held || !strings.Contains(free.Summary, "agent-7") {
			t.Errorf("%+v", free)
		}
	})
}

// TestAForcedReleaseOfATurnsLane tells who stands in line, ends the turn's own hold with the other one, and has another
// process continue the turn.
func TestAForcedReleaseOfATurnsLane(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, func(d *api.Deps) { d.Outbox = d.Approvals.Outbox })
		begin := func() execution.Execution {
			e := execution.Execution{
				ID: ids(), Agent: activity.Operator, Surface: trace.Operate, Trace: w.Traces.New(trace.Operate), Attempt: 1,
				Input: json.RawMessage(`{"task":"turn"}`),
			}
			e.Subject = lane.Execution(e.ID)
			own, err := w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: e.Subject, Holder: "someone"})
			if err == nil {
				err = w.Lanes.InHold(t.Context(), own, func(ctx context.Context, tx lane.Tx) error {
					w.Approvals.Outbox.Enqueue(trace.With(ctx, e.Trace), tx.Later(), turn.KickFor(e, time.Hour))
					return w.Runs.Start(tx, e)
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		frozen, next := begin(), begin()
		at := trace.WithExecution(trace.With(t.Context(), frozen.Trace), frozen.ID)
		if _, err := w.Lanes.Acquire(at, lane.Request{Workspace: w.Workspace, Lane: lane.Operate, Holder: "frozen"}); err != nil {
			t.Fatal(err)
		}
		var taken why
		got := w.must(t, 200, http.MethodGet, lanes("operate", "why"), "", &taken)
		if len(taken.Waiting) != 1 || taken.Waiting[0].Holder != string(next.Trace) || !strings.Contains(taken.Summary, string(next.Trace)) {
			t.Errorf("%s", got.body)
		}
		var did struct{ Released bool }
		if w.must(t, 200, http.MethodPost, lanes("operate", "force-release"), `{"reason":"it hangs"}`, &did); !did.Released {
			t.Error("nothing was released")
		}
		if own, err := w.Lanes.Peek(t.Context(), w.Workspace, frozen.Subject); err != nil || own.Held() {
			t.Errorf("the turn is still worked on: %+v, %v", own, err)
		}
		var b db.Batch
		due := w.Approvals.Outbox.Due(&b, turn.Topic)
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil || *due != 1 {
			t.Errorf("%d turns go on, %v", *due, err)
		}
	})
}

func TestForceRelease(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var h held
		w.must(t, 200, http.MethodPost, lanes("x", "acquire"), `{"holder":"agent-7"}`, &h)
		var did struct{ Released bool }
		w.refused(t, 409, "fence_changed", http.MethodPost, lanes("x", "force-release"), fmt.Sprintf(`{"reason":"it hung","fence":%d}`, h.Fence-1))
		got := w.must(t, 200, http.MethodPost, lanes("x", "force-release"), fmt.Sprintf(`{"reason":"it hangs","fence":%d}`, h.Fence), &did)
		if !did.Released {
			t.Errorf("%s", got.body)
		}
		w.refused(t, 409, "lost", http.MethodPost, lanes("x", "renew"), proof(h.Token))
		w.must(t, 200, http.MethodPost, lanes("x", "force-release"), `{"reason":"again"}`, &did)
		if did.Released {
			t.Error("a free lane was released")
		}
		page, err := w.Activity.List(t.Context(), w.Workspace, activity.Filter{Skill: "lane.force_release", Limit: 10})
		if err != nil || len(page.Items) != 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		second, first := page.Items[0], page.Items[1]
		var audit struct{ Items []struct{ Summary string } }
		w.must(t, 200, http.MethodGet, "/api/v1/audit?action=lane.force_release", "", &audit)
		if len(audit.Items) != 2 || audit.Items[0].Summary != "force release lane: reason again (nothing was done)" ||
			audit.Items[1].Summary != "force release lane: reason it hangs" {
			t.Errorf("audit: %+v", audit)
		}
		for action, n := range map[string]int{"lane": 2, "lan_": 0, "%": 0, "lane_force": 0, "lane.force%": 0, "Lane": 0} {
			w.must(t, 200, http.MethodGet, "/api/v1/audit?action="+url.QueryEscape(action), "", &audit)
			if len(audit.Items) != n {
				t.Errorf("%s finds %+v", action, audit)
			}
		}
		var in struct{ Lane, Reason, By string }
		var out struct {
			Released bool
			Holder   string
			Fence    int64
		}
		decode(t, first.Input, &in)
		decode(t, first.Output, &out)
		if in.Lane != "x" || in.Reason != "it hangs" || in.By != "local:owner" || !out.Released || out.Holder != "agent-7" || out.Fence != h.Fence {
			t.Errorf("who, why, whom: %s %s", first.Input, first.Output)
		}
		if string(first.Trace) != got.header.Get("X-Trace-Id") || first.Status != activity.Success || second.Status != activity.Skipped {
			t.Errorf("%+v\n%+v", first, second)
		}
	})
}

func TestOneWinnerByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[int]int{}
		for range 64 {
			wg.Go(func() {
				got := w.call(t, http.MethodPost, lanes("contended", "acquire"), owner, `{"holder":"everybody"}`)
				mu.Lock()
				defer mu.Unlock()
				count[got.status]++
			})
		}
		wg.Wait()
		if count[200] != 1 || count[409] != 63 {
			t.Errorf("answers: %v", count)
		}
	})
}

func TestTTLs(t *testing.T) {
	w := onOne(t)
	for _, ttl := range []string{"0", "-1", "3601", "1.5", `"300"`, "1e30", "1e400", "null", "true"} {
		for _, verb := range []string{"acquire", "renew"} {
			body := fmt.Sprintf(`{"holder":"h","ttlSeconds":%s}`, ttl)
			if verb == "renew" {
				body = fmt.Sprintf(`{"token":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f","ttlSeconds":%s}`, ttl)
			}
			got := w.call(t, http.MethodPost, lanes("t", verb), owner, body)
			if ttl == "null" { // null counts as missing
				if got.status == 422 {
					t.Errorf("%s: %s", body, got.body)
				}
				continue
			}
			var p problem
			decode(t, got.body, &p)
			if got.status != 422 || !p.at("body.ttlSeconds") {
				t.Errorf("%s %s: %d %s", verb, body, got.status, got.body)
			}
		}
	}
}

// The queues belong to the process and serve all tenants, so no tenant sees them.
func TestNoTenantIsToldOfTheQueues(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	keyed := newWorld(t, w.Env, func(d *api.Deps) { d.Auth = auth.New(tokens(w.Workspace), d.People.VerifyKey) })
	var key struct{ Key string }
	if err := json.Unmarshal(keyed.call(t, http.MethodPost, "/api/v1/api-keys", owner, `{"name":"ci","role":"OWNER","scopes":["*"]}`).body, &key); err != nil {
		t.Fatal(err)
	}
	if got := keyed.call(t, http.MethodGet, "/api/v1/lanes", key.Key, ""); string(got.body) != `{"items":[],"nextCursor":null}`+"\n" {
		t.Errorf("a tenant is told %s", got.body)
	}
}

// A client that lost the response repeats the request with the same token and gets the same hold.
// Without a token it cannot.
func TestAnAcquireIsRepeatedByItsToken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const token = "6BA7B810-9dad-11d1-80b4-00c04fd430c8"
		body := fmt.Sprintf(`{"holder":"agent-7","token":%q}`, token)
		var lost, again held
		w.must(t, 200, http.MethodPost, lanes("build", "acquire"), body, &lost)
		w.must(t, 200, http.MethodPost, lanes("build", "acquire"), body, &again)
		if again.Token != strings.ToLower(token) || again.Fence != lost.Fence || again.Fence == 0 {
			t.Errorf("repeated: %+v, at first %+v", again, lost)
		}
		w.refused(t, 409, "busy", http.MethodPost, lanes("build", "acquire"), `{"holder":"agent-7"}`)
		w.refused(t, 409, "busy", http.MethodPost, lanes("build", "acquire"),
			`{"holder":"agent-7","token":"7ba7b810-9dad-11d1-80b4-00c04fd430c8"}`)
		if p := w.refused(t, 422, "invalid", http.MethodPost, lanes("build", "acquire"), `{"holder":"h","token":"x"}`); !p.at("body.token") {
			t.Errorf("%+v", p)
		}
		w.must(t, 200, http.MethodPost, lanes("build", "release"), proof(again.Token), nil)
	})
}

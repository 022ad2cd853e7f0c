package catchup_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// TestWhatWasMissedIsSentAgain, however many pages back, once, and nothing else is: what came, what
// came though GitHub thinks that it failed, what is older than the source, what is under way, and what
// was refused for its content.
func TestWhatWasMissedIsSentAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		now := time.Now()
		var want []string
		w.add("before-the-source", now.Add(-time.Hour), 502)
		w.Skew.Advance(2 * time.Hour)
		at := func(i int) time.Time { return now.Add(time.Minute + time.Duration(i)*time.Second) }
		for i := range 230 {
			guid := fmt.Sprintf("d-%d", i)
			switch i % 10 {
			case 3:
				w.add(guid, at(i), 502)
				want = append(want, guid)
			case 5:
				w.add(guid, at(i), 413)
			case 7:
				w.add(guid, at(i), 500)
				w.receive(t, guid)
			default:
				w.add(guid, at(i), 202)
				w.receive(t, guid)
			}
		}
		w.add("under-way", now.Add(2*time.Hour-time.Second), 0)
		for range 3 {
			w.look(t)
			w.Skew.Advance(time.Minute + time.Second)
		}
		asked, pages := w.requests()
		asked = slices.DeleteFunc(asked, func(guid string) bool { return guid == "under-way" }) // a minute later it is missing
		slices.Sort(asked)
		slices.Sort(want)
		if !slices.Equal(asked, want) {
			t.Errorf("asked for %d, not %d: %v", len(asked), len(want), asked)
		}
		if len(pages) < 3 || len(pages) > 9 {
			t.Errorf("%d pages were read", len(pages))
		}
		known, err := w.s.Known(t.Context(), w.Workspace, w.source.ID, want)
		if err != nil || len(known) != len(want) {
			t.Errorf("%d of %d are there, %v", len(known), len(want), err)
		}
		if c := w.caught(t); c.Error != "" || c.Missed != 23 || c.Cursor != "" || c.Since.IsZero() || c.At.IsZero() {
			t.Errorf("it has caught up: %+v", c)
		}
		if wait := w.wait(t); wait < 9*time.Minute || wait > 11*time.Minute {
			t.Errorf("it looks again in %s", wait)
		}
		before := len(pages)
		w.Skew.Advance(11 * time.Minute)
		w.look(t)
		if _, pages = w.requests(); len(pages) != before+1 {
			t.Errorf("%d pages were read where nothing is new", len(pages)-before)
		}
	})
}

// TestWhatNeverComesIsGivenUp after three asks, and told.
func TestWhatNeverComesIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Skew.Advance(time.Hour)
		w.send = func(guid string) { // it fails again, and is listed again
			w.add(guid, time.Now().Add(time.Hour), 502)
		}
		w.add("d1", time.Now().Add(time.Minute), 502)
		w.add("d2", time.Now().Add(time.Minute), 502)
		w.receive(t, "d2")
		for range 12 {
			w.look(t)
			w.Skew.Advance(11 * time.Minute)
		}
		asked, _ := w.requests()
		if c := w.caught(t); !slices.Equal(asked, []string{"d1", "d1", "d1"}) || c.Missed != 1 {
			t.Errorf("asked for %v, %d missed", asked, c.Missed)
		}
	})
}

// TestOneThatGitHubCannotSendAgainStopsNothing: the others are asked for, the look comes to its end, and
// the one is given up after three asks, and told.
func TestOneThatGitHubCannotSendAgainStopsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Skew.Advance(time.Hour)
		w.perPage = 2
		for i := range 6 {
			w.add(fmt.Sprint("d-", i), time.Now().Add(time.Minute), 502)
		}
		poison := 0
		w.refuse = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/5/attempts") { // of d-4
				return false
			}
			poison++
			rw.WriteHeader(http.StatusBadGateway)
			return true
		}
		for range 6 {
			w.look(t)
			w.Skew.Advance(11 * time.Minute)
		}
		asked, _ := w.requests()
		slices.Sort(asked)
		if want := []string{"d-0", "d-1", "d-2", "d-3", "d-5"}; !slices.Equal(asked, want) || poison != 3 {
			t.Errorf("asked for %v, and %d times for the one", asked, poison)
		}
		if c := w.caught(t); c.Missed != 1 || c.Failures != 0 || c.Since.IsZero() || c.Cursor != "" {
			t.Errorf("it has caught up: %+v", c)
		}
	})
}

// TestAnOutageGivesNothingUp: while GitHub answers nothing, its refusals to send again don't count.
func TestAnOutageGivesNothingUp(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	w.Skew.Advance(time.Hour)
	w.send = func(string) {}
	w.add("d1", time.Now().Add(time.Minute), 502)
	w.look(t)
	w.refuse = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	}
	for range 8 {
		w.Skew.Advance(61 * time.Minute)
		w.look(t)
	}
	if c := w.caught(t); c.Missed != 0 || c.Asked["d1"].Times != 1 || c.Failures != 8 {
		t.Errorf("in the outage: %+v", c)
	}
	w.refuse, w.send = nil, func(guid string) { w.receive(t, guid) }
	for range 2 {
		w.Skew.Advance(61 * time.Minute)
		w.look(t)
	}
	if c := w.caught(t); c.Missed != 0 || len(c.Asked) != 0 || c.Error != "" {
		t.Errorf("after it: %+v", c)
	}
}

// TestRefusedContentIsTold once, though looks overlap, unless another try of it came.
func TestRefusedContentIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Skew.Advance(time.Hour)
		w.look(t)
		at := time.Now().Add(time.Hour) // looks overlap there
		w.add("large", at, 413)
		w.add("large", at, 413)
		w.add("came", at, 413)
		w.receive(t, "came")
		w.add(strings.Repeat("<", 10), at, 413)
		for range 4 {
			w.Skew.Advance(3 * time.Minute)
			w.due(t)
			w.look(t)
		}
		if asked, _ := w.requests(); len(asked) != 0 || w.caught(t).Missed != 1 {
			t.Errorf("asked for %v, %+v", asked, w.caught(t))
		}
	})
}

// TestARefusalIsToldOnceThoughTheLookBeginsAnew, because its page is gone.
func TestARefusalIsToldOnceThoughTheLookBeginsAnew(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	w.Skew.Advance(time.Hour)
	w.perPage = 1
	for i := range 7 {
		w.add(fmt.Sprint("d-", i), time.Now().Add(time.Minute), 413)
	}
	w.look(t)
	w.refuse = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("cursor") == "" {
			return false
		}
		rw.WriteHeader(http.StatusUnprocessableEntity)
		return true
	}
	w.due(t)
	w.look(t)
	w.refuse = nil
	for range 2 {
		w.due(t)
		w.look(t)
	}
	if c := w.caught(t); c.Missed != 7 || c.Since.IsZero() {
		t.Errorf("%+v", c)
	}
}

// TestALookGoesOnWhereItEnded: one call reads a few pages, and the next goes on behind them; so does
// one that comes after a process that was killed.
func TestALookGoesOnWhereItEnded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Skew.Advance(time.Hour)
		w.perPage = 4
		for i := range 30 {
			w.add(fmt.Sprint("d-", i), time.Now().Add(time.Minute), 202)
			w.receive(t, fmt.Sprint("d-", i))
		}
		w.look(t)
		if wait := w.wait(t); w.caught(t).Cursor != "v1_11" || wait > 70*time.Second {
			t.Fatalf("after the first call: %+v, on in %s", w.caught(t), wait)
		}
		w.Skew.Advance(2 * time.Minute)
		calls := 0
		w.refuse = func(rw http.ResponseWriter, _ *http.Request) bool { // killed in the second page
			if calls++; calls >= 2 {
				panic(http.ErrAbortHandler)
			}
			return false
		}
		w.look(t)
		w.refuse = nil
		if got := w.caught(t).Cursor; got != "v1_7" {
			t.Errorf("after it broke off: %q", got)
		}
		w.Skew.Advance(time.Hour)
		w.look(t)
		_, pages := w.requests()
		if want := []string{"", "v1_27", "v1_23", "v1_19", "v1_15", "v1_11", "v1_7", "v1_3"}; !slices.Equal(pages, want) || w.caught(t).Since.IsZero() {
			t.Errorf("the pages were %v, and it has caught up to %+v", pages, w.caught(t))
		}
	})
}

// TestRefusalsAndHostileAnswers cost nothing but time: it looks again, later each time, and as late as
// GitHub wants; what it tells is in its own words, and never has the token; then it catches up.
func TestRefusalsAndHostileAnswers(t *testing.T) {
	answers := map[string]struct {
		refuse func(w http.ResponseWriter, r *http.Request)
		error  string
		least  time.Duration
	}{
		"404":        {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "CANARY", http.StatusNotFound) }, "no such webhook", 10 * time.Minute},
		"401":        {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "CANARY", http.StatusUnauthorized) }, "does not accept the token", 10 * time.Minute},
		"403":        {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "CANARY", http.StatusForbidden) }, "does not allow the token", 10 * time.Minute},
		"500":        {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "CANARY", http.StatusInternalServerError) }, "status 500", 10 * time.Minute},
		"no list":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"CANARY":1}`) }, "no list", 10 * time.Minute},
		"no JSON":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `[{"id":`) }, "no list", 10 * time.Minute},
		"deep":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("[", 1<<20)) }, "no list", 10 * time.Minute},
		"huge":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat(" ", 3<<20)) }, "no list", 10 * time.Minute},
		"breaks off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "call GitHub", 10 * time.Minute},
		"to elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, "call GitHub", 10 * time.Minute},
		"limited": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour+40*time.Minute).Unix(), 10))
			w.WriteHeader(http.StatusForbidden)
		}, "asked again later", 38 * time.Minute},
		"too many": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "2400")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "asked again later", 39 * time.Minute},
		"for ever": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "999999999")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "asked again later", 5 * time.Hour},
	}
	onEach(t, func(t *testing.T, w *world) {
		w.Skew.Advance(time.Hour)
		w.add("d1", time.Now().Add(time.Minute), 502)
		for name, c := range answers {
			t.Run(name, func(t *testing.T) {
				w.refuse = func(rw http.ResponseWriter, r *http.Request) bool { c.refuse(rw, r); return true }
				if r := w.look(t); r.Claimed != 1 || r.Retried != 1 {
					t.Errorf("%+v", r)
				}
				got := w.caught(t)
				if !strings.Contains(got.Error, c.error) || strings.Contains(got.Error, "CANARY") || strings.Contains(got.Error, token) || got.Failures != 1 {
					t.Errorf("it tells %q, %d failures", got.Error, got.Failures)
				}
				if wait := w.wait(t); wait < c.least-time.Minute || wait > 6*time.Hour+time.Minute {
					t.Errorf("it looks again in %s", wait)
				}
				w.refuse = nil
				reset := w.caught(t)
				reset.Failures = 0
				b, err := w.s.Progress(t.Context(), w.Workspace, w.source.ID)
				if err != nil {
					t.Fatal(err)
				}
				b.CatchUp = reset
				if err := w.s.Caught(t.Context(), w.Workspace, b); err != nil {
					t.Fatal(err)
				}
				w.due(t)
			})
		}
		w.refuse = nil
		w.look(t)
		if asked, _ := w.requests(); !slices.Equal(asked, []string{"d1"}) || w.caught(t).Error != "" {
			t.Errorf("then: asked for %v, %+v", asked, w.caught(t))
		}
	})
}

// due makes the source look now.
func (w *world) due(t testing.TB) {
	t.Helper()
	var b db.Batch
	w.outbox.DueNow(&b, "catch_up:"+w.source.ID)
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
}

// TestFailuresWaitLongerEachTime, an hour at most.
func TestFailuresWaitLongerEachTime(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	w.refuse = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusInternalServerError)
		return true
	}
	for i, want := range []int{10, 20, 40, 60, 60, 60, 60, 60, 60} {
		w.look(t)
		if wait := w.wait(t); int(wait.Round(time.Minute).Minutes()) != want {
			t.Errorf("failure %d: it looks again in %s", i+1, wait)
		}
		w.due(t)
	}
}

// TestAnEndlessListIsReadPageByPage: a list that never ends costs a few pages each minute, and a cursor
// that leads nowhere new ends it.
func TestAnEndlessListIsReadPageByPage(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	w.Skew.Advance(time.Hour)
	pages := 0
	w.refuse = func(rw http.ResponseWriter, r *http.Request) bool {
		pages++
		rw.Header().Set("Link", fmt.Sprintf(`<http://169.254.169.254/latest?cursor=%d>; rel="next"`, pages))
		_, _ = io.WriteString(rw, `[]`)
		return true
	}
	w.look(t)
	if pages != 5 {
		t.Errorf("%d pages in one call", pages)
	}
	w.refuse = func(rw http.ResponseWriter, r *http.Request) bool {
		pages++
		rw.Header().Set("Link", `<https://api.github.com/?cursor=5>; rel="next"`)
		_, _ = io.WriteString(rw, `[]`)
		return true
	}
	w.due(t)
	w.look(t)
	if c := w.caught(t); pages != 6 || c.Since.IsZero() {
		t.Errorf("%d pages, %+v", pages, c)
	}
}

// TestItCatchesUpWhileItIsTo: a source that is disabled or has no webhook any more asks nothing; one
// whose row is gone is found by the sweep, and another webhook begins anew.
func TestItCatchesUpWhileItIsTo(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.look(t)
		update := func(fn func(*inbox.Source)) {
			t.Helper()
			n, err := w.s.Source(t.Context(), w.Workspace, "gh")
			if err != nil {
				t.Fatal(err)
			}
			fn(&n)
			w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.s.Update(ctx, tx, n); return err })
		}
		looks := func() int { _, pages := w.requests(); return len(pages) }
		if looks() != 1 {
			t.Fatalf("%d looks", looks())
		}
		for name, off := range map[string]func(*inbox.Source){
			"disabled": func(n *inbox.Source) { n.Enabled = false }, "without a webhook": func(n *inbox.Source) { n.Hook = nil },
		} {
			before := looks()
			update(off)
			w.due(t)
			w.look(t)
			if looks() != before || w.row(t).Status != outbox.Sent {
				t.Errorf("%s: %d looks", name, looks()-before)
			}
			if _, err := w.s.Sweep(t.Context(), w.Workspace); err != nil || w.row(t).Status != outbox.Sent {
				t.Errorf("%s, swept: %s, %v", name, w.row(t).Status, err)
			}
			update(func(n *inbox.Source) {
				n.Enabled, n.Hook = true, &inbox.Hook{Owner: "acme", Repo: "app", ID: 42, Token: "gh-token"}
			})
			if w.look(t); looks() != before+1 {
				t.Errorf("%s, and on again: %d looks", name, looks()-before)
			}
		}
		claimed, err := w.outbox.Claim(t.Context(), outbox.Request{Workspace: w.Workspace, Topics: []string{inbox.CatchUpTopic}, Holder: "test", Limit: 1, Lease: time.Minute})
		if err != nil || len(claimed) != 0 {
			t.Fatal(err)
		}
		w.due(t)
		claimed, err = w.outbox.Claim(t.Context(), outbox.Request{Workspace: w.Workspace, Topics: []string{inbox.CatchUpTopic}, Holder: "test", Limit: 1, Lease: time.Minute})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("%d rows, %v", len(claimed), err)
		}
		w.tx(t, func(_ context.Context, tx *db.Tx) error {
			w.outbox.UncertainIn(tx.Later(), claimed[0], io.EOF)
			return nil
		})
		if _, err := w.s.Sweep(t.Context(), w.Workspace); err != nil || w.row(t).Status != outbox.Ready {
			t.Errorf("its row was lost: %s, %v", w.row(t).Status, err)
		}
		if w.caught(t).Since.IsZero() {
			t.Fatal("it has not caught up")
		}
		update(func(n *inbox.Source) { n.Hook = &inbox.Hook{Owner: "acme", Repo: "other", ID: 42, Token: "gh-token"} })
		if c := w.caught(t); !c.Since.IsZero() {
			t.Errorf("of another webhook: %+v", c)
		}
		w.look(t)
		if c := w.caught(t); !strings.Contains(c.Error, "no such webhook") {
			t.Errorf("of another webhook: %+v", c)
		}
	})
}

// TestNothingPrivateIsDialled: what GitHub's name leads to is dialled by the guarded client.
func TestNothingPrivateIsDialled(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	out, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	catcher(w).Do = out.Do
	w.look(t)
	if _, pages := w.requests(); len(pages) != 0 || !strings.Contains(w.caught(t).Error, "refused") {
		t.Errorf("%d requests, %q", len(pages), w.caught(t).Error)
	}
}

// TestASecretThatIsMissing is told by its name.
func TestASecretThatIsMissing(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	if err := w.secrets.Delete(t.Context(), w.Workspace, "gh-token"); err != nil {
		t.Fatal(err)
	}
	w.look(t)
	if c := w.caught(t); c.Error != "there is no secret gh-token" {
		t.Errorf("%+v", c)
	}
}

// TestAsMuchAsIsKeptIsBounded: however much is missing, under whatever ids, what is noted fits in its
// row, and one call asks for a few.
func TestAsMuchAsIsKeptIsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Skew.Advance(time.Hour)
		w.send = func(string) {}
		for i := range 400 {
			w.add(fmt.Sprintf("%064d", i), time.Now().Add(time.Minute), 502)
			w.add(strings.Repeat("<", 40)+fmt.Sprint(i), time.Now().Add(time.Minute), 502)
			w.add(strings.Repeat("x", 200)+fmt.Sprint(i), time.Now().Add(time.Minute), 502)
		}
		before := 0
		for range 25 {
			w.look(t)
			asked, _ := w.requests()
			if len(asked)-before > 20 {
				t.Errorf("one call asks for %d", len(asked)-before)
			}
			before = len(asked)
			w.Skew.Advance(61 * time.Second)
		}
		asked, _ := w.requests()
		if c := w.caught(t); len(c.Asked) < 100 || len(c.Asked) > 300 || c.Error != "" || slices.ContainsFunc(asked, func(guid string) bool { return len(guid) != 64 || guid[0] != '0' }) {
			t.Errorf("%d are kept, %q", len(c.Asked), c.Error)
		}
	})
}

package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// station serves the events of a world's workspace over a network connection.
type station struct {
	*world
	url    string
	as     string // token of its requests; empty: the stream without authentication
	events *event.Store
}

const often = 2 * time.Millisecond

func newStation(t testing.TB, w *world, streams sse.Streams) *station {
	t.Helper()
	events, err := event.New(w.Deps.DB)
	if err != nil {
		t.Fatal(err)
	}
	streams.Every, streams.Most = often, 1000
	h := api.NewEventStream(w.Deps, events, streams)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(rw, r.WithContext(auth.With(r.Context(), auth.Principal{Workspace: w.Workspace, Role: auth.Member})))
	}))
	t.Cleanup(server.Close) // waits until all responses have ended
	return &station{world: w, url: server.URL + "/api/v1/events", events: events}
}

// happen writes activities. Each of them is an event.
func (s *station) happen(t testing.TB, skills ...string) {
	t.Helper()
	for _, skill := range skills {
		ctx := trace.With(context.Background(), s.Traces.New(trace.Heartbeat))
		err := s.Activity.Write(ctx, s.Workspace, activity.Entry{Agent: "ada", Surface: trace.Heartbeat, Skill: skill, Status: activity.Success, Duration: 12 * time.Millisecond})
		if err != nil {
			t.Error(err)
		}
	}
}

// block holds the fields of one block of a stream.
type block map[string]string

func (b block) skill(t testing.TB) string {
	t.Helper()
	var e struct{ Data struct{ Skill string } }
	decode(t, []byte(b["data"]), &e)
	return e.Data.Skill
}

// tuned reads a stream.
type tuned struct {
	*http.Response
	leave context.CancelFunc
	lines *bufio.Scanner
}

// tune opens the stream after an id, which may be empty.
func (s *station) tune(t testing.TB, query, id string) *tuned {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if s.as != "" {
		r.Header.Set("Authorization", "Bearer "+s.as)
	}
	if id != "" {
		r.Header.Set("Last-Event-ID", id)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" ||
		s.as == "" && got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%s %v", got.Status, got.Header)
	}
	t.Cleanup(func() { got.Body.Close() })
	return &tuned{got, leave, bufio.NewScanner(got.Body)}
}

// next returns the next block, or nil at the end.
func (s *tuned) next() block {
	b := block{}
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch {
		case s.lines.Text() == "" && len(b) > 0:
			return b
		case name == "":
			name = "comment"
		}
		b[name] = value
	}
	return nil
}

// event returns the next block with data, or nil at the end.
func (s *tuned) event() block {
	for b := s.next(); b != nil; b = s.next() {
		if b["data"] != "" {
			return b
		}
	}
	return nil
}

func TestStreamOfEvents(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		s := newStation(t, w, sse.Streams{})
		s.happen(t, "before")
		stream := s.tune(t, "", "")
		opening := stream.next()
		if opening["retry"] != "2000" || opening["id"] == "" || opening["data"] != "" {
			t.Errorf("it opens with %v", opening)
		}
		s.happen(t, "look")
		first := stream.event()
		for first.skill(t) == "before" { // it was not settled at the first read
			first = stream.event()
		}
		var e struct {
			ID, Kind, Subject, TraceID string
			Data                       map[string]any
			CreatedAt                  time.Time
		}
		decode(t, []byte(first["data"]), &e)
		if first["event"] != "activity" || e.Kind != "activity" || e.ID != first["id"] || e.Subject == "" || e.TraceID == "" || e.CreatedAt.IsZero() {
			t.Errorf("%v", first)
		}
		if want := map[string]any{"agent": "ada", "surface": "heartbeat", "skill": "look", "status": "success", "durationMs": 12.0}; fmt.Sprint(e.Data) != fmt.Sprint(want) {
			t.Errorf("data %v, want %v", e.Data, want)
		}
		stream.leave()
		// A client that has received no event resumes from the opening id.
		if got := s.tune(t, "", opening["id"]).event(); got["id"] != first["id"] && got.skill(t) != "before" {
			t.Errorf("behind the opening: %v", got)
		}
	})
}

// A client that is disconnected repeatedly and resumes with the last id sees every event exactly
// once, whatever happens at the same time.
func TestResumingLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		s := newStation(t, w, sse.Streams{})
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		stream := s.tune(t, "", "")
		last := stream.next()["id"]

		const writers, each = 4, 100
		var wg sync.WaitGroup
		var want []string
		for n := range writers {
			var mine []string
			for i := range each {
				mine = append(mine, fmt.Sprintf("%d_%d", n, i))
			}
			want = append(want, mine...)
			wg.Go(func() { s.happen(t, mine...) })
		}
		var got []string
		for len(got) < len(want) {
			for range 1 + r.IntN(60) {
				if len(got) == len(want) {
					break
				}
				b := stream.event()
				if b == nil {
					t.Fatal("the stream ended")
				}
				got, last = append(got, b.skill(t)), b["id"]
			}
			stream.leave()
			stream = s.tune(t, "", last)
		}
		wg.Wait()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("saw %d of %d, or some twice", len(slices.Compact(got)), len(want))
		}
		s.happen(t, "last")
		if b := stream.event(); b.skill(t) != "last" {
			t.Errorf("behind the end: %v", b)
		}
	})
}

func TestStreamOfSomeKinds(t *testing.T) {
	s := newStation(t, onOne(t), sse.Streams{})
	stream := s.tune(t, "?kinds=skill.disabled,skill.enabled", "")
	s.happen(t, "look")
	s.must(t, http.StatusOK, http.MethodPost, "/api/v1/skills/look/disable", `{"reason":"test"}`, nil)
	if b := stream.event(); b["event"] != "skill.disabled" || !strings.Contains(b["data"], `"by":"human"`) {
		t.Errorf("%v", b)
	}
}

// TestResumingWithinAnEvent: of two items of one event only the last has its id, so that a client that
// got the first one alone gets both when it comes back.
func TestResumingWithinAnEvent(t *testing.T) {
	s := newStation(t, onOne(t), sse.Streams{})
	tell := func() {
		t.Helper()
		err := s.events.Tell(t.Context(), s.Workspace, event.Event{Kind: "execution.started", Subject: "x", Data: []byte(`{"subject":"thread-1","agent":"ada","surface":"ch"}`)})
		if err != nil {
			t.Fatal(err)
		}
	}
	all, some := s.tune(t, "", ""), s.tune(t, "?kinds=execution.started", "")
	tell()
	first, second, only := all.event(), all.event(), some.event()
	if first["event"] != "execution.started" || first["id"] != "" || second["event"] != "lane.acquired" || second["id"] == "" || only["id"] != second["id"] {
		t.Errorf("%v, %v, %v", first, second, only)
	}
}

func TestStreamOfACursorFromElsewhere(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		s := newStation(t, w, sse.Streams{})
		stream := s.tune(t, "", "9000000000000000000-1")
		b := stream.next()
		var reset struct{ Cursor string }
		decode(t, []byte(b["data"]), &reset)
		if b["event"] != "reset" || b["id"] == "" || reset.Cursor != b["id"] {
			t.Errorf("%v", b)
		}
		s.happen(t, "look")
		if b := stream.event(); b.skill(t) != "look" {
			t.Errorf("then %v", b)
		}
	})
}

func TestQuietStreamsAreKeptOpen(t *testing.T) {
	s := newStation(t, onOne(t), sse.Streams{Quiet: 3 * often})
	stream := s.tune(t, "", "")
	stream.next()
	if b := stream.next(); b["comment"] == "" || b["id"] == "" || b["data"] != "" {
		t.Errorf("%v", b)
	}
}

func TestStreamsEnd(t *testing.T) {
	t.Run("after their time", func(t *testing.T) {
		s := newStation(t, onOne(t), sse.Streams{For: 20 * time.Millisecond})
		if b := s.tune(t, "", "").event(); b != nil {
			t.Errorf("%v", b)
		}
	})
	t.Run("when the server drains", func(t *testing.T) {
		drain := make(chan struct{})
		s := newStation(t, onOne(t), sse.Streams{Drain: drain})
		stream := s.tune(t, "", "")
		stream.next()
		close(drain)
		if b := stream.event(); b != nil {
			t.Errorf("%v", b)
		}
	})
	t.Run("when the caller leaves", func(t *testing.T) {
		s := newStation(t, onOne(t), sse.Streams{})
		stream := s.tune(t, "", "")
		stream.next()
		stream.leave() // closing the server waits until the response has ended
	})
}

// deaf is a client that does not read.
type deaf struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *deaf) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func (s *deaf) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func TestCallersThatTakeNothingAreLeft(t *testing.T) {
	w := onOne(t)
	events, err := event.New(w.Deps.DB)
	if err != nil {
		t.Fatal(err)
	}
	h := api.NewEventStream(w.Deps, events, sse.Streams{})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/events", nil)
	caller := &deaf{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(caller, r.WithContext(auth.With(r.Context(), auth.Principal{Workspace: w.Workspace})))
	if left := time.Until(caller.deadline); left <= 0 || left > 11*time.Second {
		t.Errorf("it had %s to take what was sent", left)
	}
}

// ask sends a request that is answered without a stream.
func (s *station) ask(t testing.TB, method, query string, header http.Header) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, body
}

func TestPollingEvents(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		s := newStation(t, w, sse.Streams{})
		type answer struct {
			Items []struct {
				ID   string
				Data struct{ Skill string }
			}
			NextCursor string
			Reset      bool
		}
		poll := func(query string) (a answer) {
			t.Helper()
			status, body := s.ask(t, http.MethodGet, query, http.Header{"Accept": {"application/json"}})
			if status != http.StatusOK || !bytes.Contains(body, []byte(`"items":[`)) {
				t.Fatalf("%d %s", status, body)
			}
			if err := json.Unmarshal(body, &a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		s.happen(t, "before")
		at := poll("")
		if len(at.Items) > 0 || at.NextCursor == "" || at.Reset {
			t.Errorf("now: %+v", at)
		}
		s.happen(t, "a", "b")
		var got []string
		for !slices.Contains(got, "b") {
			at = poll("?cursor=" + at.NextCursor)
			for _, item := range at.Items {
				if item.Data.Skill != "before" { // it may not have been settled at the first read
					got = append(got, item.Data.Skill)
				}
			}
		}
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%v", got)
		}
		if a := poll("?cursor=9000000000000000000-1"); !a.Reset || len(a.Items) > 0 || poll("?cursor="+a.NextCursor).Reset {
			t.Errorf("from elsewhere: %+v", a)
		}
	})
}

func TestRequestsForEventsThatAreRefused(t *testing.T) {
	s := newStation(t, onOne(t), sse.Streams{})
	for query, at := range map[string]string{
		"?cursor=x": "query.cursor", "?cursor=": "query.cursor", "?kinds=": "query.kinds", "?kinds=A": "query.kinds", "?kinds=a,,b": "query.kinds",
		"?kinds=" + strings.Repeat("a,", 32) + "a": "query.kinds", "?limit=1": "query.limit",
	} {
		status, body := s.ask(t, http.MethodGet, query, nil)
		var p problem
		decode(t, body, &p)
		if status != http.StatusUnprocessableEntity || !p.at(at) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	status, body := s.ask(t, http.MethodGet, "", http.Header{"Last-Event-Id": {"x"}})
	if status != http.StatusUnprocessableEntity || !bytes.Contains(body, []byte("header.Last-Event-ID")) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.ask(t, http.MethodHead, "", nil); status != http.StatusOK || len(body) > 0 {
		t.Errorf("HEAD: %d %s", status, body)
	}
}

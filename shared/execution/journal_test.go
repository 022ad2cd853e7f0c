package execution_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
)

func (w world) journal(t testing.TB, id string) []execution.Entry {
	t.Helper()
	entries, err := w.runs.Journal(t.Context(), w.Workspace, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestAJournalIsReadInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		if err := w.append(t, h, e, note(3), note(1)); err != nil {
			t.Fatal(err)
		}
		if err := w.append(t, h, e, note(2)); err != nil {
			t.Fatal(err)
		}
		entries := w.journal(t, e.ID)
		if len(entries) != 3 {
			t.Fatalf("%d entries", len(entries))
		}
		for i, entry := range entries {
			var body struct{ N int }
			if err := json.Unmarshal(entry.Body, &body); err != nil {
				t.Fatal(err)
			}
			if entry.Seq != i+1 || body.N != i+1 || entry.Step != (i+1)/2 || entry.Format != execution.Format || entry.Call != "" || entry.CreatedAt.IsZero() {
				t.Errorf("entry %d is %+v", i, entry)
			}
		}
	})
}

func TestOneOfTwoWritersOfAnEntryIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		if err := w.append(t, h, e, note(1)); err != nil {
			t.Fatal(err)
		}
		if err := w.append(t, h, e, note(2), note(1)); !errors.Is(err, db.ErrUnique) {
			t.Errorf("the same entry again: %v", err)
		}
		if got := len(w.journal(t, e.ID)); got != 1 {
			t.Errorf("%d entries are left", got)
		}
	})
}

func TestACallHasOneResult(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		entry := func(seq int, kind execution.Kind, status execution.StepStatus, call string) execution.Entry {
			return execution.Entry{Seq: seq, Step: 1, Kind: kind, Status: status, Call: call, Body: json.RawMessage(`{}`)}
		}
		err := w.append(t, h, e, entry(1, execution.Called, execution.Started, "1.1"), entry(2, execution.Result, execution.Succeeded, "1.1"),
			entry(3, execution.Called, execution.Started, "1.1"), entry(4, execution.Result, execution.Errored, "1.2"))
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range []execution.StepStatus{execution.Succeeded, execution.Errored, execution.Uncertain} {
			if err := w.append(t, h, e, entry(5, execution.Result, status, "1.1")); !errors.Is(err, db.ErrUnique) {
				t.Errorf("a second result, %s: %v", status, err)
			}
		}
		another := newExecution("objective:2")
		h2 := w.hold(t, another.Subject)
		w.start(t, h2, another)
		if err := w.append(t, h2, another, entry(1, execution.Result, execution.Succeeded, "1.1")); err != nil {
			t.Errorf("the same call of another execution: %v", err)
		}
		if got := w.journal(t, e.ID); len(got) != 4 || got[0].Call != "1.1" || got[3].Status != execution.Errored {
			t.Errorf("the journal is %+v", got)
		}
	})
}

func TestAForeignEntryIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		for name, change := range map[string]func(*execution.Entry){
			"kind":     func(e *execution.Entry) { e.Kind = "thought" },
			"status":   func(e *execution.Entry) { e.Status = "fine" },
			"seq":      func(e *execution.Entry) { e.Seq = 0 },
			"negative": func(e *execution.Entry) { e.Step = -1 },
			"body":     func(e *execution.Entry) { e.Body = json.RawMessage(`{`) },
			"no body":  func(e *execution.Entry) { e.Body = nil },
		} {
			entry := note(1)
			change(&entry)
			if err := w.append(t, h, e, entry); !errors.Is(err, db.ErrCheck) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := w.append(t, h, execution.Execution{ID: ids(), Subject: subject}, note(1)); !errors.Is(err, db.ErrReference) {
			t.Errorf("no such execution: %v", err)
		}
	})
}

func TestANewerFormatIsRefusedWithAClearMessage(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		if err := w.append(t, h, e, note(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.FromTheFuture, e.ID, 2); err != nil {
			t.Fatal(err)
		}
		_, err := w.runs.Journal(t.Context(), w.Workspace, e.ID, 0)
		if err == nil {
			t.Fatal("it was read")
		}
		for _, part := range []string{e.ID, "entry 2 has format 99", fmt.Sprintf("reads up to %d", execution.Format), "deploy the newer build"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
	})
}

// TestTheStepsOfATraceAreBounded: the steps of a trace are read up to a number of bytes, also by an
// older build.
func TestTheStepsOfATraceAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		big := func(seq int) execution.Entry {
			entry := note(seq)
			entry.Body = json.RawMessage(`{"text":"` + strings.Repeat("ä", 50_000) + `"}`)
			return entry
		}
		if err := w.append(t, h, e, big(1), big(2), note(4), big(5), note(6)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.FromTheFuture, e.ID, 3); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			limit, size int
			want        []int // when more is true, the last one has no body
			more        bool
		}{
			{10, 1 << 20, []int{1, 2, 3, 4, 5, 6}, false},
			{3, 1 << 20, []int{1, 2, 3}, false},
			{10, 250_000, []int{1, 2, 3, 4, 5}, true},
			{10, 150_000, []int{1, 2}, true},
			{10, 10, []int{1}, true},
		} {
			var b db.Batch
			found := w.runs.StepsOfTrace(&b, e.Trace, c.limit, c.size)
			if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			var got []int
			for i, entry := range *found {
				got = append(got, entry.Seq)
				if last := i == len(*found)-1; entry.Execution != e.ID || (entry.Body == nil) != (c.more && last) {
					t.Errorf("%d bytes: entry %d has a body of %d bytes", c.size, entry.Seq, len(entry.Body))
				}
				if err := entry.Readable(); (err != nil) != (entry.Seq == 3) || err != nil && !errors.Is(err, execution.ErrUnreadable) {
					t.Errorf("entry %d is readable: %v", entry.Seq, err)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%d entries of %d bytes: %v, want %v", c.limit, c.size, got, c.want)
			}
		}
	})
}

func TestAJournalOfNothingIsEmpty(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		e := w.start(t, w.hold(t, subject), newExecution(subject))
		if got := w.journal(t, e.ID); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
		if got := w.neighbour(t).journal(t, e.ID); len(got) != 0 {
			t.Errorf("a neighbour reads %+v", got)
		}
	})
}

func TestDoingNamesTheStep(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		doing := func() string {
			s, err := w.runs.Doing(t.Context(), w.Workspace, e.ID)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		if got := doing(); got != "agent flowpilot, running at step 0" {
			t.Errorf("it is %q", got)
		}
		if err := w.append(t, h, e, note(1), note(2), note(5)); err != nil {
			t.Fatal(err)
		}
		w.become(t, e.ID, execution.Parked)
		if got := doing(); got != "agent flowpilot, parked at step 2" {
			t.Errorf("it is %q", got)
		}
		if s, err := w.runs.Doing(t.Context(), w.Workspace, ids()); err != nil || s != "" {
			t.Errorf("one that is not there does %q (%v)", s, err)
		}
	})
}

func TestAJournalIsReadBehindAnEntry(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		if err := w.append(t, h, e, note(1), note(2), note(3)); err != nil {
			t.Fatal(err)
		}
		for after := range 5 {
			want := max(0, 3-after)
			entries, err := w.runs.Journal(t.Context(), w.Workspace, e.ID, after)
			if err != nil || len(entries) != want || want > 0 && entries[0].Seq != after+1 {
				t.Errorf("behind %d: %+v, %v", after, entries, err)
			}
			before := w.DB.Stats()
			found, entries, err := w.runs.Since(t.Context(), w.Workspace, e.ID, after)
			if err != nil || found.ID != e.ID || found.Status != execution.Running || len(entries) != want || want > 0 && entries[0].Seq != after+1 {
				t.Errorf("since %d: %+v, %+v, %v", after, found, entries, err)
			}
			if got, want := w.DB.Stats().Sub(before), (db.Stats{Statements: 2, RoundTrips: 1}); got != want {
				t.Errorf("it costs %+v, want %+v", got, want)
			}
		}
		if _, _, err := w.runs.Since(t.Context(), w.Workspace, ids(), 0); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("of none: %v", err)
		}
	})
}

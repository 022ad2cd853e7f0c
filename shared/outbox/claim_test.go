package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

func TestAClaimIsItsHoldersUntilItsLeaseRunsOut(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.enqueue(t, kick("a"))[0]
		first := w.the(t)
		e := w.get(t, id)
		if e.Status != outbox.Sending || e.Attempts != 1 || first.Attempt != 1 || e.ClaimedBy != "test" || !e.ClaimedUntil.Equal(first.Until) ||
			!about(first.Until.Sub(e.UpdatedAt), lease) {
			t.Errorf("claimed: %+v, %+v", e, first)
		}
		if got := w.claim(t, 10); len(got) != 0 || w.due(t, topic) != 0 {
			t.Errorf("somebody else claimed %q", keys(got))
		}
		w.Skew.Advance(lease - 10*time.Second)
		if got := w.claim(t, 10); len(got) != 0 {
			t.Errorf("before its lease ran out somebody else claimed %q", keys(got))
		}
		w.Skew.Advance(10 * time.Second)
		if w.due(t, topic) != 1 {
			t.Error("it is not due")
		}
		second := w.the(t)
		if second.Attempt != 2 {
			t.Errorf("the second try is number %d", second.Attempt)
		}
		for name, err := range map[string]error{
			"sent": w.s.Sent(t.Context(), first), "retry": w.s.Retry(t.Context(), first, errors.New("x")),
			"fail": w.s.Fail(t.Context(), first, errors.New("x")), "kill": w.s.Kill(t.Context(), first, errors.New("x")),
			"uncertain": w.s.Uncertain(t.Context(), first, errors.New("x")),
		} {
			if !errors.Is(err, outbox.ErrLost) {
				t.Errorf("%s by the first: %v", name, err)
			}
		}
		w.mustBe(t, outbox.Sending, id)
		w.Skew.Advance(2 * lease) // the lease has expired, but no other sender has claimed the row
		if err := w.s.Sent(t.Context(), second); err != nil {
			t.Error(err)
		}
		if e := w.get(t, id); e.Status != outbox.Sent || e.SentAt == nil || e.ClaimedUntil != nil {
			t.Errorf("sent: %+v", e)
		}
		if err := w.s.Sent(t.Context(), second); !errors.Is(err, outbox.ErrLost) {
			t.Errorf("twice: %v", err)
		}
		if got := w.claim(t, 10); len(got) != 0 {
			t.Errorf("a sent row was claimed: %q", keys(got))
		}
	})
}

func TestALostClaimUndoesWhatItsMarkTravelsWith(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.enqueue(t, kick("a"))[0]
		c := w.the(t)
		write := func(key string) error {
			return w.s.Lost(w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				w.s.Enqueue(ctx, tx.Later(), kick(key))
				w.s.SentIn(tx.Later(), c)
				w.s.Enqueue(ctx, tx.Later(), kick(key+"too"))
				return nil
			}))
		}
		w.Skew.Advance(2 * lease)
		w.the(t)
		if err := write("b"); !errors.Is(err, outbox.ErrLost) {
			t.Errorf("got %v", err)
		}
		w.mustBe(t, outbox.Sending, id)
		if n := w.due(t, topic); n != 0 {
			t.Errorf("%d rows were written", n)
		}
		w.Skew.Advance(2 * lease)
		c = w.the(t)
		if err := write("c"); err != nil {
			t.Error(err)
		}
		w.mustBe(t, outbox.Sent, id)
		if n := w.due(t, topic); n != 2 {
			t.Errorf("%d rows were written", n)
		}
		if sorry := errors.New("sorry"); w.s.Lost(sorry) != sorry || w.s.Lost(nil) != nil { //nolint:errorlint // the same one
			t.Error("another error is taken for a lost claim")
		}
	})
}

func TestTheTriesOfARowAreSpreadAndCounted(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.MaxAttempts = 9
		id := w.enqueue(t, row)[0]
		for attempt, seconds := range []int{5, 10, 20, 40, 80, 160, 300, 300} {
			want := time.Duration(seconds) * time.Second
			if err := w.s.Retry(t.Context(), w.the(t), errors.New("no\x00 luck")); err != nil {
				t.Fatal(err)
			}
			e := w.get(t, id)
			if e.Status != outbox.Ready || e.Attempts != attempt+1 || !about(e.DueAt.Sub(e.UpdatedAt), want) || e.LastError != "no\uFFFD luck" {
				t.Errorf("after try %d: %+v, due in %s, want %s", attempt+1, e, e.DueAt.Sub(e.UpdatedAt), want)
			}
			last := min(want, 10*time.Second)
			w.Skew.Advance(want - last)
			if got := w.claim(t, 1); len(got) != 0 {
				t.Fatal("it was tried before its time")
			}
			w.Skew.Advance(last)
		}
		c := w.the(t)
		if !c.Last() {
			t.Errorf("%+v is not the last", c)
		}
		if err := w.s.Retry(t.Context(), c, errors.New("no luck")); err != nil {
			t.Fatal(err)
		}
		w.mustBe(t, outbox.Failed, id)
		w.Skew.Advance(time.Hour)
		if w.due(t, topic) != 0 {
			t.Error("a failed row is due")
		}
	})
}

// busy is an error that says when to retry.
type busy time.Duration

func (b busy) Error() string             { return "busy" }
func (b busy) RetryAfter() time.Duration { return time.Duration(b) }

func TestATryWaitsAsLongAsItIsAskedTo(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for asked, want := range map[time.Duration]time.Duration{time.Second: 5 * time.Second, 17 * time.Minute: 17 * time.Minute, 3 * time.Hour: time.Hour} {
			id := w.enqueue(t, kick(asked.String()))[0]
			w.drain(t, handler(func(context.Context, outbox.Claimed) error { return fmt.Errorf("post: %w", busy(asked)) }))
			if e := w.get(t, id); e.Status != outbox.Ready || !about(e.DueAt.Sub(e.UpdatedAt), want) {
				t.Errorf("asked for %s it is %s and due in %s, want %s", asked, e.Status, e.DueAt.Sub(e.UpdatedAt), want)
			}
		}
	})
}

func TestWhatIsSentAgainGoesBehindTheOthers(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		limited := ordered("a", "o", 1)
		limited.TTL = time.Hour
		late := ordered("b", "o", 2)
		late.TTL = time.Minute
		added := w.enqueue(t, limited, late, ordered("c", "o", 3))
		for range 2 {
			if err := w.s.Fail(t.Context(), w.the(t), errors.New("no")); err != nil {
				t.Fatal(err)
			}
		}
		w.Skew.Advance(2 * time.Minute)
		if err := w.resend(t, "o", added[0], 4); err != nil {
			t.Fatal(err)
		}
		if e := w.get(t, added[0]); e.Status != outbox.Queued || e.Seq != 4 || e.Attempts != 0 || e.ExpiresAt == nil {
			t.Errorf("it is %+v", e)
		}
		for id, want := range map[string]outbox.Status{added[0]: outbox.Queued, added[1]: outbox.Expired, added[2]: outbox.Ready} {
			err := w.resend(t, "o", id, 5)
			if got, ok := errors.AsType[*outbox.StatusError](err); !ok || got.Status != want {
				t.Errorf("%v, want it to be %s", err, want)
			}
		}
		for order, id := range map[string]string{"another": added[1], "o": ids()} {
			if err := w.resend(t, order, id, 5); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("of %s: %v", order, err)
			}
		}
	})
}

// The bound doubles with each attempt, up to five minutes. All delays below it have the same
// probability.
func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attempt, random := rapid.IntRange(-1, 1_000_000).Draw(t, "attempt"), rapid.Float64Range(0, 1).Draw(t, "random")
		got := outbox.Backoff(attempt, random)
		if got < 0 || got > outbox.LongestBackoff {
			t.Fatalf("it waits %s", got)
		}
		if half := outbox.Backoff(attempt, random/2); (2*half-got).Abs() > 2 || outbox.Backoff(attempt+1, random) < got {
			t.Fatalf("%s, of half the randomness %s", got, half)
		}
	})
}

func TestARowThatKillsItsProcessEndsAsUncertain(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.MaxAttempts = 3
		id := w.enqueue(t, row, kick("b"))[0]
		for range 3 {
			if c := w.claim(t, 1); keys(c) != "a" {
				t.Fatalf("claimed %q", keys(c))
			}
			w.Skew.Advance(2 * lease) // the holder does not return
			b := w.claim(t, 1)        // the row that is overdue for longest
			if keys(b) != "b" {
				t.Fatalf("then claimed %q", keys(b))
			}
			if err := w.s.Retry(t.Context(), b[0], errors.New("no")); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range w.claim(t, 10) {
			if c.Key == "a" {
				t.Error("it was tried once more")
			}
		}
		if e := w.get(t, id); e.Status != outbox.Uncertain || e.Attempts != 3 || e.LastError == "" {
			t.Errorf("%+v", e)
		}
	})
}

func TestACutOffTryOfAnUnkeyedTopicIsUncertain(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		cut := w.enqueue(t, kick("a"))[0]
		r := w.request(1)
		r.Unkeyed = []string{topic}
		if _, err := w.s.Claim(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(2 * lease)
		fresh := w.enqueue(t, kick("b"))[0]
		claimed, err := w.s.Claim(t.Context(), r)
		if err != nil || keys(claimed) != "b" {
			t.Errorf("claimed %q, %v", keys(claimed), err)
		}
		w.mustBe(t, outbox.Uncertain, cut)
		w.mustBe(t, outbox.Sending, fresh)
	})
}

func TestWhatIsNotSentInTimeExpires(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.TTL = time.Hour
		late := w.enqueue(t, row)[0]
		row.Key = "b"
		cut := w.enqueue(t, row)[0]
		if err := w.s.Retry(t.Context(), w.claim(t, 1)[0], errors.New("no")); err != nil {
			t.Fatal(err)
		}
		w.claim(t, 1) // a or b; the other one waits
		w.Skew.Advance(time.Hour + time.Second)
		if got := w.claim(t, 10); len(got) != 0 {
			t.Errorf("claimed %q", keys(got))
		}
		states := map[outbox.Status]int{w.get(t, late).Status: 1}
		states[w.get(t, cut).Status]++
		if states[outbox.Expired] != 1 || states[outbox.Uncertain] != 1 {
			t.Errorf("they are %v", states) // the attempt that was cut off may have had its effect
		}
	})
}

func TestOnlyTheFirstOfAnOrderKeyIsClaimed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.enqueue(t, ordered("a1", "a", 1), ordered("a2", "a", 2), ordered("b1", "b", 1), kick("x"), ordered("a3", "a", 3))
		first := w.claim(t, 10)
		if keys(first) != "a1b1x" || w.due(t, topic) != 0 {
			t.Fatalf("claimed %q", keys(first))
		}
		if err := w.s.Retry(t.Context(), first[0], errors.New("later")); err != nil { // it blocks its successors
			t.Fatal(err)
		}
		if got := w.claim(t, 10); len(got) != 0 {
			t.Fatalf("claimed %q", keys(got))
		}
		w.Skew.Advance(6 * time.Second)
		if err := w.s.Fail(t.Context(), w.the(t), errors.New("for good")); err != nil { // it blocks them no more
			t.Fatal(err)
		}
		second := w.the(t)
		if second.Key != "a2" {
			t.Fatalf("claimed %q", second.Key)
		}
		// A predecessor is resent. Two rows of an order key are never in flight.
		w.become(t, first[0].ID, outbox.Ready)
		before := w.DB.Stats()
		if got := w.claim(t, 10); len(got) != 0 || w.DB.Stats().Sub(before).Statements != 1 {
			t.Fatalf("claimed %q", keys(got))
		}
		if err := w.s.Sent(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		if c := w.the(t); c.Key != "a1" {
			t.Errorf("claimed %q", c.Key)
		}
	})
}

func TestAQueuedRowHoldsUpThoseBehindIt(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first := ordered("a", "o", 1)
		first.Queued = true
		id := w.enqueue(t, first, ordered("b", "o", 2))[0]
		if got := w.claim(t, 10); len(got) != 0 || w.due(t, topic) != 0 {
			t.Fatalf("claimed %q", keys(got))
		}
		w.become(t, id, outbox.Ready)
		if got := w.claim(t, 10); keys(got) != "a" {
			t.Errorf("claimed %q", keys(got))
		}
	})
}

// TestWhatIsTooLateWaitsForNoRowBeforeIt: a message that has expired is never sent, so it needs no turn.
func TestWhatIsTooLateWaitsForNoRowBeforeIt(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first, late, last := ordered("a", "o", 1), ordered("b", "o", 2), ordered("c", "o", 3)
		first.Queued, late.TTL = true, time.Hour
		added := w.enqueue(t, first, late, last)
		w.Skew.Advance(time.Hour + time.Second)
		if n := w.due(t, topic); n != 1 {
			t.Errorf("%d rows are due, want the one that is too late", n)
		}
		if got := w.claim(t, 10); len(got) != 0 {
			t.Errorf("claimed %q", keys(got))
		}
		w.mustBe(t, outbox.Queued, added[0])
		w.mustBe(t, outbox.Expired, added[1])
		w.mustBe(t, outbox.Ready, added[2])
	})
}

func TestTopicsAreTheClaimants(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		other := kick("a")
		other.Topic = "other"
		w.enqueue(t, other, kick("b"))
		if w.due(t) != 0 || w.due(t, "other") != 1 || w.due(t, "other", topic, "none") != 2 {
			t.Errorf("due: %d, %d, %d", w.due(t), w.due(t, "other"), w.due(t, "other", topic, "none"))
		}
		if got := w.claim(t, 10); keys(got) != "b" {
			t.Errorf("claimed %q", keys(got))
		}
		r := w.request(10)
		r.Topics = []string{"none", "other"}
		if got, err := w.s.Claim(t.Context(), r); err != nil || keys(got) != "a" {
			t.Errorf("claimed %q, %v", keys(got), err)
		}
		r.Topics = nil
		if got, err := w.s.Claim(t.Context(), r); err != nil || len(got) != 0 {
			t.Errorf("claimed %q, %v", keys(got), err)
		}
	})
}

// If a handler is limited, a claim lasts a few seconds longer than its limit, and at most 35
// seconds. Other claims last as long as the sender's lease.
func TestAClaimLivesForItsHandlersLimit(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for limit, want := range map[time.Duration]time.Duration{10 * time.Second: 15 * time.Second, time.Hour: 35 * time.Second} {
			id := w.enqueue(t, kick(limit.String()))[0]
			w.drain(t, limited{limit, func(context.Context, outbox.Claimed) error {
				e := w.get(t, id)
				if lives := e.ClaimedUntil.Sub(e.UpdatedAt); !about(lives, want) {
					t.Errorf("limit %s: the claim lives for %s, want %s", limit, lives, want)
				}
				return nil
			}})
		}
		id := w.enqueue(t, kick("long"))[0]
		w.drain(t, handler(func(context.Context, outbox.Claimed) error {
			if e := w.get(t, id); !about(e.ClaimedUntil.Sub(e.UpdatedAt), lease) {
				t.Errorf("the claim of another lives until %s", e.ClaimedUntil)
			}
			return nil
		}))
	})
}

// limited is a handler with a time limit.
type limited struct {
	limit time.Duration
	handler
}

func (l limited) Limit() time.Duration { return l.limit }

func TestTheClaimsOfTheDeadAreGivenBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ids := w.enqueue(t, kick("a"), kick("b"), kick("c"))
		r := w.request(2)
		r.Holder = "outbox gone"
		got, err := w.s.Claim(t.Context(), r)
		if err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		c := w.the(t) // another sender has it
		var look, change db.Batch
		by := w.s.Claimants(&look)
		if err := w.DB.Read(t.Context(), w.Workspace, &look); err != nil || len(*by) != 2 {
			t.Fatal(*by, err)
		}
		n := w.s.GiveBack(&change, "outbox gone")
		if err := w.DB.Do(t.Context(), w.Workspace, &change); err != nil || *n != 2 {
			t.Fatalf("given back %d: %v", *n, err)
		}
		w.mustBe(t, outbox.Sending, ids...)
		again := w.claim(t, 10)
		if len(again) != 2 || again[0].Attempt != 2 || again[1].Attempt != 2 {
			t.Errorf("claimed again: %+v", again)
		}
		if err := w.s.Sent(t.Context(), c); err != nil {
			t.Errorf("the other's claim: %v", err)
		}
		if err := w.s.Sent(t.Context(), got[0]); !errors.Is(err, outbox.ErrLost) {
			t.Errorf("the old claim: %v", err)
		}
	})
}

func TestARowMayBeDueNow(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.Delay = time.Hour
		w.enqueue(t, row)
		if got := w.claim(t, 1); len(got) != 0 {
			t.Fatal("it was due")
		}
		var b db.Batch
		w.s.DueNow(&b, "a")
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		w.the(t)
	})
}

func TestTheRowsOfATopicMayBeDueNow(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		late, other := kick("late"), kick("other")
		late.Delay, other.Delay, other.Topic = time.Hour, time.Hour, "other"
		w.enqueue(t, kick("in hand"), late, other)
		inHand := w.the(t)
		var b db.Batch
		w.s.AllDueNow(&b, topic)
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		if n := w.due(t, "other"); n != 0 {
			t.Errorf("%d rows of another topic are due", n)
		}
		if got := w.the(t); got.Key != "late" {
			t.Errorf("due is %+v", got)
		}
		if err := w.s.Sent(t.Context(), inHand); err != nil {
			t.Errorf("the row in hand: %v", err)
		}
	})
}

// A row that was delayed for a known time is due after that time, and its attempt does not count.
// An unfinished row is due at once.
func TestWhenARowIsDueAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		boom := errors.New("boom")
		put := w.enqueue(t, kick("put off"))[0]
		w.drain(t, handler(func(context.Context, outbox.Claimed) error { return outbox.LaterIn(10*time.Second, boom) }))
		if e := w.get(t, put); e.Status != outbox.Ready || e.Attempts != 0 || !about(e.DueAt.Sub(e.UpdatedAt), 10*time.Second) {
			t.Errorf("put off: %+v", e)
		}
		row := kick("unfinished")
		row.MaxAttempts = 3
		id, tries := w.enqueue(t, row)[0], 0
		got := w.drain(t, handler(func(context.Context, outbox.Claimed) error { tries++; return outbox.Unfinished(boom) }))
		if e := w.get(t, id); e.Status != outbox.Failed || tries != 3 || got.Retried != 2 {
			t.Errorf("%d tries, %+v, %+v", tries, got, e)
		}
	})
}

// DueNow also affects a claimed row: it is due at once after the end of that claim. It affects that
// claim only.
func TestARowThatIsWantedWhileClaimedIsDueAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.enqueue(t, kick("a"))
		for _, want := range []int{1, 0} {
			c := w.the(t)
			if want == 1 {
				var b db.Batch
				w.s.DueNow(&b, "a")
				if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
					t.Fatal(err)
				}
				if n := w.due(t, topic); n != 0 {
					t.Error("it is due while it is claimed")
				}
			}
			if err := w.s.Retry(t.Context(), c, errors.New("not yet")); err != nil {
				t.Fatal(err)
			}
			if n := w.due(t, topic); n != want {
				t.Errorf("given back, %d rows are due, want %d", n, want)
			}
		}
	})
}

// TestAKickThatIsWantedWhileItSucceeds stays due, with all its attempts, also when it has failed for good. A
// message is sent once.
func TestAKickThatIsWantedWhileItSucceeds(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		want := func(key string) {
			var b db.Batch
			w.s.DueNow(&b, key)
			if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
		}
		for i, end := range []func(outbox.Claimed) error{
			func(c outbox.Claimed) error { return w.s.Sent(t.Context(), c) },
			func(c outbox.Claimed) error { return w.s.Fail(t.Context(), c, errors.New("gone")) },
		} {
			key := fmt.Sprint("kick ", i)
			id := w.enqueue(t, kick(key))[0]
			c := w.the(t)
			want(key)
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			if e := w.get(t, id); e.Status != outbox.Ready || e.Attempts != 0 || e.SentAt != nil || w.due(t, topic) != 1 {
				t.Errorf("%s: %+v", key, e)
			}
			if err := w.s.Sent(t.Context(), w.the(t)); err != nil {
				t.Fatal(err)
			}
			w.mustBe(t, outbox.Sent, id)
		}
		row := kick("message")
		row.Kind = outbox.Message
		id := w.enqueue(t, row)[0]
		c := w.the(t)
		want("message")
		if err := w.s.Sent(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		w.mustBe(t, outbox.Sent, id)
	})
}

// TestARowThatIsRoused is due at once, also if it has ended. A row that isn't there is not added.
func TestARowThatIsRoused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		rouse := func(key string) {
			var b db.Batch
			w.s.Rouse(&b, key)
			if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
		}
		rouse("a")
		if n := w.due(t, topic); n != 0 {
			t.Errorf("%d rows", n)
		}
		id := w.enqueue(t, kick("a"))[0]
		if err := w.s.Sent(t.Context(), w.the(t)); err != nil {
			t.Fatal(err)
		}
		rouse("a")
		if e := w.get(t, id); e.Status != outbox.Ready || e.Attempts != 0 {
			t.Errorf("%+v", e)
		}
		c := w.the(t)
		rouse("a")
		if err := w.s.Retry(t.Context(), c, errors.New("not yet")); err != nil || w.due(t, topic) != 1 {
			t.Errorf("%v, %d due", err, w.due(t, topic))
		}
		rouse("a")
		if e := w.get(t, id); e.Status != outbox.Ready || e.Attempts != 0 {
			t.Errorf("roused while it is ready: %+v", e)
		}
		last := kick("last")
		last.MaxAttempts = 1
		cut := w.enqueue(t, last)[0]
		w.claim(t, 2)
		w.Skew.Advance(2 * lease)
		w.claim(t, 2)
		w.mustBe(t, outbox.Uncertain, cut)
		rouse("last")
		if e := w.get(t, cut); e.Status != outbox.Ready || e.Attempts != 0 || w.due(t, topic) != 1 {
			t.Errorf("roused after its last attempt was cut off: %+v", e)
		}
	})
}

// TestAnEndlessRowIsNeverUncertain: its handler decides about a last attempt that was cut off.
func TestAnEndlessRowIsNeverUncertain(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.MaxAttempts = 2
		id := w.enqueue(t, row)[0]
		r := w.request(1)
		r.Endless = []string{topic}
		for n := range 4 {
			got, err := w.s.Claim(t.Context(), r)
			if err != nil || len(got) != 1 || got[0].Attempt != n+1 || got[0].Last() != (n > 0) {
				t.Fatalf("claim %d: %+v, %v", n, got, err)
			}
			w.Skew.Advance(2 * lease)
		}
		w.mustBe(t, outbox.Sending, id)
	})
}

// TestALookCounts: what a row has begun elsewhere may be lost each time. The pauses grow, until the row has
// failed; work that begins clears the count.
func TestALookCounts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.MaxAttempts = 3
		id := w.enqueue(t, row)[0]
		look := func() outbox.Entry {
			w.Skew.Advance(10 * time.Minute)
			w.drain(t, handler(func(context.Context, outbox.Claimed) error { return outbox.LookIn(20*time.Second, errors.New("begun")) }))
			return w.get(t, id)
		}
		for n := range 2 {
			if e := look(); e.Status != outbox.Ready || e.Attempts != n+1 || e.DueAt.Sub(e.UpdatedAt) < 19*time.Second {
				t.Errorf("look %d: %+v", n, e)
			}
		}
		var b db.Batch
		w.s.Began(&b, "a")
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		for n, want := range []outbox.Status{outbox.Ready, outbox.Ready, outbox.Failed} {
			if e := look(); e.Status != want || e.Attempts != n+1 {
				t.Errorf("look %d after it began: %+v", n, e)
			}
		}
	})
}

// TestWhatBeganIsNotUncountedTwice: an attempt that does not count is not taken off a count that was cleared
// while it was made.
func TestWhatBeganIsNotUncountedTwice(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.enqueue(t, kick("a"))[0]
		w.drain(t, handler(func(ctx context.Context, c outbox.Claimed) error {
			var b db.Batch
			w.s.Began(&b, c.Key)
			if err := w.DB.Do(ctx, c.Workspace, &b); err != nil {
				t.Error(err)
			}
			return outbox.LaterIn(time.Minute, errors.New("it is worked on"))
		}))
		if e := w.get(t, id); e.Status != outbox.Ready || e.Attempts != 0 {
			t.Errorf("%+v", e)
		}
	})
}

// TestAClaimGrantsTheWishForIt: a sender dies with a row that DueNow has marked. The next claim
// clears the mark, so that its end may set a later time.
func TestAClaimGrantsTheWishForIt(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.enqueue(t, kick("a"))
		w.the(t)
		var b db.Batch
		w.s.DueNow(&b, "a")
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(2 * lease)
		if err := w.s.Retry(t.Context(), w.the(t), errors.New("not yet")); err != nil {
			t.Fatal(err)
		}
		if n := w.due(t, topic); n != 0 {
			t.Errorf("given back by the next sender, %d rows are due, want none", n)
		}
	})
}

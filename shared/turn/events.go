package turn

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// Event is a piece of what happens in a run.
type Event struct {
	Behind Position // where whoever has it goes on
	// Restart says that the answer begins anew: the pieces of text whose Behind has the
	// same Seq are void.
	Restart bool
	// Text is a piece of the model's answer; else the event is about Call.
	Text string
	Call reason.CallSummary
}

// Position is a place in what a run tells: behind so many entries of its journal, and
// a part of the next: bytes of its text, then its calls, each of which counts as one.
// Sum is the checksum of that part of the text: a model that was cut off before its
// answer was recorded answers anew, and something else.
type Position struct {
	Seq, Part int
	Sum       uint32
}

// String is the position as the id of an event.
func (p Position) String() string { return fmt.Sprintf("%d.%d.%08x", p.Seq, p.Part, p.Sum) }

// ErrPosition says that a text is no position.
var ErrPosition = errors.New("it is not the id of an event of an execution")

// maxSeq bounds what a position may say.
const maxSeq = 1 << 30

// ParsePosition reads the id of an event.
func ParsePosition(id string) (Position, error) {
	parts := strings.Split(id, ".")
	if len(parts) != 3 {
		return Position{}, ErrPosition
	}
	seq, err1 := strconv.ParseUint(parts[0], 10, 31)
	part, err2 := strconv.ParseUint(parts[1], 10, 31)
	sum, err3 := strconv.ParseUint(parts[2], 16, 32)
	if errors.Join(err1, err2, err3) != nil || seq > maxSeq || part > maxSeq {
		return Position{}, ErrPosition
	}
	return Position{int(seq), int(part), uint32(sum)}, nil
}

// teller tells what happens in a run: as it happens, or from its journal. Either way
// the same comes behind a position.
type teller struct {
	Position
	emit func(Event)
}

// streamed tells a piece of an answer that is not recorded yet.
func (t *teller) streamed(d llm.Delta) {
	if d.Restart {
		t.restart()
	}
	t.delta(d.Text)
}

// restart takes back what was told of an answer that is not recorded. A listener who
// was told nothing of it learns nothing.
func (t *teller) restart() {
	if t.Part > 0 {
		t.Position = Position{Seq: t.Seq}
		t.say(Event{Restart: true})
	}
}

// delta tells a piece of an answer's text.
func (t *teller) delta(text string) {
	if text != "" {
		t.Part += len(text)
		t.Sum = crc32.Update(t.Sum, crc32.IEEETable, []byte(text))
		t.say(Event{Text: text})
	}
}

// entries tells what was recorded, but for what was told before.
func (t *teller) entries(entries []execution.Entry) {
	for _, h := range heard(entries) {
		t.entry(h)
	}
}

func (t *teller) entry(h Heard) {
	if h.Seq <= t.Seq {
		return
	}
	if crc32.ChecksumIEEE([]byte(h.Text[:min(t.Part, len(h.Text))])) != t.Sum {
		t.restart() // another answer than the one it had begun with
	}
	skip := t.Part - len(h.Text)
	if skip < 0 {
		t.delta(h.Text[t.Part:])
		skip = 0
	}
	for i, c := range h.Calls {
		if i >= skip {
			t.Part = len(h.Text) + i + 1
			t.say(Event{Call: c})
		}
	}
	t.Position = Position{Seq: h.Seq}
}

func (t *teller) say(e Event) {
	if t.emit != nil {
		e.Behind = t.Position
		t.emit(e)
	}
}

// Heard is what an entry of a journal says, read once for all who follow: without the
// arguments of calls, which may be long.
type Heard struct {
	Seq int
	reason.EntrySummary
}

// heard reads what entries say; most say nothing.
func heard(entries []execution.Entry) []Heard {
	out := make([]Heard, 0, len(entries))
	for _, e := range entries {
		told, err := reason.Summarize(e)
		if err != nil {
			continue // whoever resumes the run says so
		}
		for i := range told.Calls {
			told.Calls[i].Arguments = nil
		}
		out = append(out, Heard{e.Seq, told})
	}
	return out
}

// Since is what the journal of an execution says behind the entry numbered after, and
// how the execution stands: nil while it is worked on. It is one round trip.
func (r *Runner) Since(ctx context.Context, ws db.Workspace, id string, after int) ([]Heard, *Reply, error) {
	e, entries, err := r.Runs.Since(ctx, ws, id, after)
	if err != nil || e.Status == execution.Running {
		return heard(entries), nil, err
	}
	reply := r.replyOf(e)
	return heard(entries), &reply, nil
}

// Tell is what was heard of an execution, told to one who follows it and stands at a
// position; ended says that nothing more comes of it for now.
func Tell(after Position, all []Heard, ended bool) (events []Event, next Position) {
	t := teller{Position: after, emit: func(e Event) { events = append(events, e) }}
	for _, h := range all {
		t.entry(h)
	}
	if ended {
		t.restart()
	}
	return events, t.Position
}

// Events is what an execution tells behind a position, from its journal, and where it
// stands. The reply is nil while it is worked on. It is called by GET
// /api/v1/executions/{id}/events.
func (r *Runner) Events(ctx context.Context, ws db.Workspace, id string, after Position) (events []Event, next Position, ended *Reply, err error) {
	all, ended, err := r.Since(ctx, ws, id, after.Seq)
	if err != nil {
		return nil, after, nil, err
	}
	events, next = Tell(after, all, ended != nil)
	return events, next, ended, nil
}

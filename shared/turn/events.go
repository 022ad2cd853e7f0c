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

// Event is one event of a run.
type Event struct {
	After Position // a follower continues from here
	// Restart says that the model begins its answer again. A client must drop the pieces of text
	// whose After has the same Seq.
	Restart bool
	// Text is a piece of the model's answer. If it is empty, the event is about Call.
	Text string
	Call reason.CallSummary
}

// Position is a position in the events of a run. It consists of a number of journal entries and a
// part of the next entry: bytes of its text, then its calls, each of which counts as one. Sum is
// the checksum of that part of the text. It is needed because a model that was interrupted before
// its answer was recorded gives a different answer.
type Position struct {
	Seq, Part int
	Sum       uint32
}

// String returns the position as the id of an event.
func (p Position) String() string { return fmt.Sprintf("%d.%d.%08x", p.Seq, p.Part, p.Sum) }

// ErrPosition says that a text is not a position.
var ErrPosition = errors.New("it is not the id of an event of an execution")

// maxSeq is the largest number in a position.
const maxSeq = 1 << 30

// ParsePosition parses the id of an event.
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

// teller emits the events of a run, either live or from its journal. Both ways give the same events
// after a position.
type teller struct {
	Position
	emit func(Event)
}

// streamed emits a piece of an answer that is not recorded yet.
func (t *teller) streamed(d llm.Delta) {
	if d.Restart {
		t.restart()
	}
	t.delta(d.Text)
}

// restart withdraws the pieces of an answer that is not recorded. It emits nothing if no piece was
// emitted.
func (t *teller) restart() {
	if t.Part > 0 {
		t.Position = Position{Seq: t.Seq}
		t.say(Event{Restart: true})
	}
}

// delta emits a piece of an answer's text.
func (t *teller) delta(text string) {
	if text != "" {
		t.Part += len(text)
		t.Sum = crc32.Update(t.Sum, crc32.IEEETable, []byte(text))
		t.say(Event{Text: text})
	}
}

// entries emits the events of recorded entries, except those that were emitted before.
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
		t.restart() // the recorded answer differs from the one that was streamed
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
		e.After = t.Position
		t.emit(e)
	}
}

// Heard is the content of a journal's entry, decoded once for all followers. It omits the arguments
// of calls, which may be long.
type Heard struct {
	Seq int
	reason.EntrySummary
}

// heard decodes entries. For most entries the content is empty.
func heard(entries []execution.Entry) []Heard {
	out := make([]Heard, 0, len(entries))
	for _, e := range entries {
		told, err := reason.Summarize(e)
		if err != nil {
			continue // the process that resumes the run reports it
		}
		for i := range told.Calls {
			told.Calls[i].Arguments = nil
		}
		out = append(out, Heard{e.Seq, told})
	}
	return out
}

// Since returns the content of an execution's journal after the entry with the number after, and
// the state of the execution. The reply is nil while the execution runs. It takes one round trip.
func (r *Runner) Since(ctx context.Context, ws db.Workspace, id string, after int) ([]Heard, *Reply, error) {
	e, entries, err := r.Runs.Since(ctx, ws, id, after)
	if err != nil || e.Status == execution.Running {
		return heard(entries), nil, err
	}
	reply := r.replyOf(e)
	return heard(entries), &reply, nil
}

// Tell returns the events of an execution after a follower's position. ended is nil while more
// events follow. An execution whose message another answers has no events: the position is one in
// those of the other, which the follower hears next.
func Tell(after Position, all []Heard, ended *Reply) (events []Event, next Position) {
	t := teller{Position: after, emit: func(e Event) { events = append(events, e) }}
	for _, h := range all {
		t.entry(h)
	}
	if ended != nil && ended.AnsweredBy == "" {
		t.restart()
	}
	return events, t.Position
}

// Events returns the events of an execution after a position, from its journal, and its state. The
// reply is nil while the execution runs. It is called by GET /api/v1/executions/{id}/events.
func (r *Runner) Events(ctx context.Context, ws db.Workspace, id string, after Position) (events []Event,
	next Position, ended *Reply, err error) {
	all, ended, err := r.Since(ctx, ws, id, after.Seq)
	if err != nil {
		return nil, after, nil, err
	}
	events, next = Tell(after, all, ended)
	return events, next, ended, nil
}

package thread_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestRandomTreesNeverInterleave: random trees of executions, up to four deep, do random things to
// a thread. A model, which is a second implementation, predicts the result of each step. What the
// person reads must be in the model's order. Between the messages of one hold there may only be
// messages that were sent under it.
func TestRandomTreesNeverInterleave(t *testing.T) {
	seed := promise.Seed(t)
	for _, share := range []struct {
		engine      string
		parts, each int
	}{{dbtest.OnSQLite, 4, 60}, {dbtest.OnPostgres, 1, 40}, {dbtest.OnPgBouncer, 1, 10}} {
		switch {
		case testing.Short():
			share.each = min(share.each, 10)
		case promise.Full():
			share.each = 2000 / share.parts
		}
		for part := range share.parts {
			t.Run(share.engine, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, dbtest.New(t, share.engine))
				proof := promise.Of(t, "R13", "random trees of executions on "+share.engine, "0 interleavings")
				for i := range share.each {
					tree := uint64(part*share.each + i)
					m := newModel(t, w, rand.New(rand.NewPCG(seed, tree)))
					for n := range 15 {
						m.step()
						if n%3 == 2 {
							m.compare()
						}
					}
					m.finish()
					if t.Failed() {
						t.Fatalf("tree %d: %q", tree, m.story)
					}
				}
				proof.Tell("0 in %d trees", share.each)
			})
		}
	}
}

// parking is the duration of a parking. It is not a multiple of the clock steps below, so that no
// limit is reached exactly.
const parking = 30*time.Minute + 30*time.Second

type oracleExecution struct {
	id       string
	parent   *oracleExecution
	inherits bool
	depth    int
	status   execution.Status
}

func (e *oracleExecution) lives() bool { return !e.status.Ended() }

// above returns the executions that e may speak under.
func (e *oracleExecution) above() (out []string) {
	for ; e.inherits && e.parent.status == execution.Waiting; e = e.parent {
		out = append(out, e.parent.id)
	}
	return out
}

// said is a message of the model.
type said struct {
	id, author, body string
	n                int
	holds            []int // the holds under which it goes
}

// held is an entry of the stack: its id, and which of its holds.
type held struct {
	id   string
	hold int
}

type model struct {
	t          *testing.T
	w          *world
	rnd        *rand.Rand
	story      []string
	now        time.Duration
	th         string
	policy     thread.Policy
	executions []*oracleExecution
	stack      []held
	since      time.Duration
	parkedBy   string
	parkedTill time.Duration
	queue, out []*said
	delivered  int
	holds, n   int
	answered   int // the n of the person's last message
}

func newModel(t *testing.T, w *world, rnd *rand.Rand) *model {
	m := &model{t: t, w: w, rnd: rnd, policy: []thread.Policy{thread.Queue, thread.Queue, thread.Supersede, thread.HandOver}[rnd.IntN(4)]}
	m.th = w.opened(t, thread.Thread{Channel: "ledger", Address: ids(), Policy: m.policy})
	w.channel.said = nil
	return m
}

func (m *model) top() string {
	if len(m.stack) == 0 {
		return ""
	}
	return m.stack[len(m.stack)-1].id
}

func (m *model) find(id string) *oracleExecution {
	i := slices.IndexFunc(m.executions, func(e *oracleExecution) bool { return e.id == id })
	if i < 0 {
		return nil
	}
	return m.executions[i]
}

// lives reports whether an execution has not ended, or a message has not been sent.
func (m *model) lives(id string) bool {
	if e := m.find(id); e != nil {
		return e.lives()
	}
	return slices.ContainsFunc(m.out[m.delivered:], func(s *said) bool { return s.id == id })
}

func (m *model) idle() bool {
	if len(m.stack) == 0 {
		return false
	}
	over := m.parkedBy == m.stack[len(m.stack)-1].id && m.parkedTill <= m.now
	return over || m.now-m.since >= thread.Idle
}

func (m *model) parked() bool { return m.parkedBy != "" && m.parkedTill > m.now }

// living returns the entries of the stack that are left.
func (m *model) living(idle bool, asker *oracleExecution) (out []held) {
	owner := -1
	if m.parked() {
		owner = slices.IndexFunc(m.stack, func(h held) bool { return h.id == m.parkedBy })
	}
	for i, h := range m.stack {
		keep := !idle || i <= owner
		if asker != nil {
			keep = keep || h.id == asker.id || slices.Contains(asker.above(), h.id)
			if slices.ContainsFunc(m.out, func(s *said) bool { return s.id == h.id && s.author == asker.id }) {
				keep = false
			}
		}
		if keep && m.lives(h.id) {
			out = append(out, h)
		}
	}
	return out
}

// become gives the thread to the last entry of a stack, whose queued messages go.
func (m *model) become(stack []held, refreshed bool) {
	before := m.top()
	m.stack = stack
	if refreshed || m.top() != before {
		m.since = m.now
	}
	if !slices.ContainsFunc(stack, func(h held) bool { return h.id == m.parkedBy }) {
		m.parkedBy = ""
	}
	m.queue = slices.DeleteFunc(m.queue, func(s *said) bool {
		goes := s.id == m.top() || s.author == m.top() || m.left(s)
		if goes {
			m.goes(s)
		}
		return goes
	})
}

// left reports whether a message is of an ended execution that the holder, or an execution under
// the holder, had begun and waited for.
func (m *model) left(s *said) bool {
	e := m.find(s.author)
	if e.lives() {
		return false
	}
	for ; e.inherits; e = e.parent {
		if e.parent.id == m.top() {
			return true
		}
	}
	return false
}

func (m *model) goes(s *said) {
	for _, h := range m.stack {
		s.holds = append(s.holds, h.hold)
	}
	m.out = append(m.out, s)
}

func (m *model) push(stack []held, id string) []held {
	m.holds++
	stack = slices.DeleteFunc(slices.Clone(stack), func(h held) bool { return h.id == id })
	return append(stack, held{id, m.holds})
}

// take decides in the model whether an execution gets the thread.
func (m *model) take(e *oracleExecution) bool {
	stack := m.living(m.idle(), e)
	top := ""
	if len(stack) > 0 {
		top = stack[len(stack)-1].id
	}
	owned := m.parked() && m.parkedBy == top && top != ""
	switch {
	case top == e.id:
		mine := stack[len(stack)-1]
		stack = append(slices.DeleteFunc(stack, func(h held) bool { return h.id == e.id }), mine)
	case top == "":
		stack = m.push(nil, e.id)
	case slices.Contains(e.above(), top), owned && m.policy == thread.HandOver:
		stack = m.push(stack, e.id)
	case owned && m.policy == thread.Supersede:
		stack = m.push(nil, e.id)
	default:
		m.become(m.stack, false) // messages of ended executions go nevertheless
		return false
	}
	m.become(stack, true)
	return true
}

// settle passes the thread on. Among the executions that have queued messages and may speak under a
// waiting holder, the first gets the thread. A message that the holder has queued before goes
// first.
func (m *model) settle(letGo string, idle bool) {
	spoken := m.find(letGo) == nil // a message
	if letGo != "" && m.top() != letGo && !(spoken && m.waits(m.top())) {
		if spoken {
			m.become(m.stack, false)
		}
		return
	}
	stack := slices.DeleteFunc(m.living(idle, nil), func(h held) bool { return h.id == letGo })
	if len(stack) == 0 && len(m.queue) > 0 {
		stack = m.push(nil, m.queue[0].id)
	}
	before := m.stack
	m.stack = stack
	if heir := m.heir(); heir != nil && heir.id != m.top() {
		stack = m.push(stack, heir.id)
	}
	m.stack = before
	m.become(stack, false)
}

func (m *model) waits(id string) bool {
	e := m.find(id)
	return e != nil && e.status == execution.Waiting
}

// heir returns the first execution that has something queued and may speak under the waiting top.
// It returns the top itself when the first queued message is its own, or is of an ended execution
// that could have spoken under it.
func (m *model) heir() *oracleExecution {
	if !m.waits(m.top()) {
		return nil
	}
	for _, s := range m.queue {
		switch e := m.find(s.author); {
		case e.id == m.top() || m.left(s):
			return m.find(m.top())
		case e.lives() && slices.Contains(e.above(), m.top()):
			return e
		}
	}
	return nil
}

// mustMove checks the queue. When everything that went was delivered, a sweep must leave nothing
// queued by an execution that may speak under a waiting top, or could have until it ended.
func (m *model) mustMove() {
	if m.delivered < len(m.out) {
		return
	}
	if e := m.heir(); e != nil {
		m.t.Errorf("a message of %s is queued, though %s waits for it; %q", e.id, m.top(), m.story)
	}
	if slices.ContainsFunc(m.queue, m.left) {
		m.t.Errorf("a message of one that has ended is queued under %s; %q", m.top(), m.story)
	}
}

// step does something to both and compares.
func (m *model) step() {
	var alive []*oracleExecution
	for _, e := range m.executions {
		if e.lives() {
			alive = append(alive, e)
		}
	}
	if len(alive) == 0 {
		m.begin(nil)
		return
	}
	e := alive[m.rnd.IntN(len(alive))]
	if len(m.executions) < 4 && m.rnd.IntN(2) == 0 {
		m.begin(e)
		return
	}
	switch n := m.rnd.IntN(100); {
	case n < 5:
		m.begin(nil)
	case n < 25:
		m.begin(e)
	case n < 35:
		m.lock(e)
	case n < 60:
		m.send(e)
	case n < 65:
		m.unlock(e)
	case n < 78:
		m.end(e)
	case n < 82:
		m.park(e)
	case n < 85:
		m.answer()
	case n < 91:
		m.drain()
	case n < 97:
		by := []time.Duration{3 * time.Minute, 11 * time.Minute}[m.rnd.IntN(2)]
		m.tell("clock", by.String())
		m.now += by
		m.w.Skew.Advance(by)
	default:
		m.sweep()
	}
}

func (m *model) tell(words ...string) {
	for i, s := range words {
		if len(s) == 36 {
			words[i] = s[28:]
		}
	}
	m.story = append(m.story, words...)
}

func (m *model) begin(parent *oracleExecution) {
	e := &oracleExecution{parent: parent, status: execution.Running}
	if parent != nil {
		if parent.depth == 4 {
			return
		}
		e.depth, e.inherits = parent.depth+1, m.rnd.IntN(3) > 0
		e.id = m.w.begin(m.t, parent.id, e.inherits)
		if e.inherits {
			parent.status = execution.Waiting
		}
		m.tell("begin", e.id, "under", parent.id)
	} else {
		e.depth, e.id = 1, m.w.begin(m.t, "", false)
		m.tell("begin", e.id)
	}
	m.executions = append(m.executions, e)
}

func (m *model) lock(e *oracleExecution) {
	m.tell("lock", e.id)
	want := m.take(e)
	_, err := m.w.lock(m.t, m.th, e.id)
	refusal, refused := errors.AsType[*thread.HeldError](err)
	switch {
	case want == refused, err != nil && !refused:
		m.t.Errorf("the lock: %v, want it taken: %t", err, want)
	case refused && refusal.Lock.Holder != m.top():
		m.t.Errorf("held by %s, want %s", refusal.Lock.Holder, m.top())
	}
}

func (m *model) send(e *oracleExecution) {
	m.n++
	s := &said{author: e.id, body: numbered(m.n), n: m.n}
	m.tell("send", s.body, "by", e.id)
	want := thread.Sent{Status: outbox.Ready}
	if m.take(e) {
		m.goes(s)
	} else {
		m.queue = append(m.queue, s)
		want.Status, want.Queued, want.Position = outbox.Queued, true, len(m.queue)
	}
	got := m.w.send(m.t, m.th, e.id, s.body)
	s.id, want.ID = got.ID, got.ID
	if got != want {
		m.t.Errorf("%+v, want %+v", got, want)
	}
}

func (m *model) unlock(e *oracleExecution) {
	m.tell("unlock", e.id)
	var want error
	if m.top() != e.id {
		want = thread.ErrNotHeld
	} else {
		m.settle(e.id, false)
	}
	err := m.w.try(m.t, func(ctx context.Context, tx *db.Tx) error { return m.w.threads.Unlock(ctx, tx, m.th, e.id) })
	if !errors.Is(err, want) {
		m.t.Errorf("unlock: %v, want %v", err, want)
	}
}

func (m *model) end(e *oracleExecution) {
	as := []execution.Status{execution.Completed, execution.Failed, execution.Cancelled}[m.rnd.IntN(3)]
	m.tell(string(as), e.id)
	e.status = as
	if p := e.parent; p != nil && e.inherits && p.status == execution.Waiting && !slices.ContainsFunc(m.executions, func(c *oracleExecution) bool {
		return c.parent == p && c.inherits && c.lives()
	}) {
		p.status = execution.Running
	}
	m.settle(e.id, false)
	m.w.end(m.t, e.id, as)
}

func (m *model) park(e *oracleExecution) {
	m.tell("park", e.id)
	var want error
	if m.top() != e.id {
		want = thread.ErrNotHeld
	} else if len(m.out) > 0 && m.answered > m.out[len(m.out)-1].n {
		want = thread.ErrAnswered
	} else {
		m.parkedBy, m.parkedTill, m.since = e.id, m.now+parking, m.now
		if e.status == execution.Running {
			e.status = execution.Parked
		}
	}
	err := m.w.tryPark(m.t, m.th, e.id, "", parking)
	if !errors.Is(err, want) {
		m.t.Errorf("park: %v, want %v", err, want)
	}
}

func (m *model) answer() {
	m.tell("answer")
	m.n++
	m.answered = m.n
	want := m.parkedBy
	if want != "" {
		m.parkedBy, m.since = "", m.now
		m.rouse()
	}
	if got := m.w.answer(m.t, m.th, "yes"); got != want {
		m.t.Errorf("resumed %q, want %q", got, want)
	}
}

// rouse resumes executions that are parked although the thread does not say so.
func (m *model) rouse() {
	for _, e := range m.executions {
		if e.status == execution.Parked && e.id != m.parkedBy {
			e.status = execution.Running
		}
	}
}

func (m *model) drain() {
	m.tell("drain")
	for m.delivered < len(m.out) {
		s := m.out[m.delivered]
		m.delivered++
		m.settle(s.id, false)
	}
	m.w.drain(m.t)
}

func (m *model) sweep() {
	m.tell("sweep")
	idle := m.idle() && !(m.parked() && m.parkedBy == m.top())
	heir := m.delivered == len(m.out) && (m.heir() != nil || slices.ContainsFunc(m.queue, m.left))
	if idle || len(m.stack) > 0 && !m.lives(m.top()) || len(m.stack) == 0 && len(m.queue) > 0 || heir {
		m.settle("", m.idle())
	}
	m.rouse()
	m.w.sweep(m.t)
	m.mustMove()
}

func (m *model) compare() {
	var stack []string
	for _, h := range m.stack {
		stack = append(stack, h.id)
	}
	got := m.w.get(m.t, m.th)
	if !slices.Equal(got.Lock.Stack, stack) || got.Lock.ParkedBy != m.parkedBy || got.Queued != len(m.queue) {
		m.t.Fatalf("stack %q, parked by %q, %d queued; want %q, %q, %d; %q", got.Lock.Stack, got.Lock.ParkedBy, got.Queued, stack, m.parkedBy, len(m.queue), m.story)
	}
	if len(m.executions) == 0 {
		return
	}
	e := m.executions[m.rnd.IntN(len(m.executions))]
	if is := m.w.status(m.t, e.id); is != e.status {
		m.t.Errorf("%s is %s, want %s", e.id, is, e.status)
	}
}

// finish ends everything, and compares what the person has read.
func (m *model) finish() {
	for _, e := range m.executions {
		if e.lives() {
			m.end(e)
		}
	}
	m.drain()
	m.compare()
	var want []string
	last := map[int]int{} // the last message of a hold
	for i, s := range m.out {
		want = append(want, s.body)
		for _, hold := range s.holds {
			if at, begun := last[hold]; begun && at != i-1 {
				m.t.Errorf("between messages %d and %d of one hold others were spoken", at, i)
			}
			last[hold] = i
		}
	}
	m.w.mustHaveSaid(m.t, want...)
	m.w.mustHold(m.t, m.th)
}

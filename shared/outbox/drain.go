package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

const (
	atOnce = 8          // rows of a workspace that a sender has in hand
	share  = atOnce / 2 // the most of them of one receiver
)

// errCut says that a handler has ended its goroutine.
var errCut = errors.New("the handler was cut off")

// handled is a row that a handler had, and what became of it.
type handled struct {
	row    Claimed
	report Report
	err    error
}

// Drain sends what is due, up to eight rows at once, until nothing is, limit rows were
// claimed, or little is left of the context's time. Rows of one order key go one after
// the other, and those of a receiver that is slow leave places to others. An error says
// that the outbox could not be read or written, or that the context has ended; the rows
// are then found by whoever comes next. Nothing of it runs once it has returned.
func (s *Sender) Drain(ctx context.Context, ws db.Workspace, limit int) (Report, error) {
	var r Report
	request := Request{Workspace: ws, Topics: s.Topics(), Holder: s.Holder}
	for topic, h := range s.Handlers {
		if unkeyed(h) {
			request.Unkeyed = append(request.Unkeyed, topic)
		}
	}
	if len(request.Topics) == 0 {
		return r, nil
	}
	p := s.enter(ws)
	defer s.leave(ws, p)
	var failed error
	ended, flying := make(chan handled), 0
	for more := true; ; {
		if more && failed == nil {
			if r.Claimed >= limit || !s.time(ctx, &request) {
				r.More, failed = true, ctx.Err()
			} else {
				claimed, over, err := s.take(ctx, p, &request, limit-r.Claimed)
				s.ended(ctx, &r, over)
				for _, c := range claimed {
					go s.fly(ctx, c, cmp.Or(request.Leases[c.Topic], request.Lease), ended)
				}
				r.Claimed, flying = r.Claimed+len(claimed), flying+len(claimed)
				if failed, more = err, len(claimed) == request.Limit; more && request.Limit > 0 {
					continue
				}
				r.More = r.More || request.Limit == 0 && flying == 0 // others of this process send
			}
		}
		if flying == 0 {
			return r, failed
		}
		h := <-ended
		flying--
		r = r.plus(h.report)
		failed = cmp.Or(failed, h.err)
		s.vacate(p, h.row)
		more = !r.More // the next of its order, what its handler has left, and itself may be due by now
	}
}

// fly has one row handled, and answers what became of it.
func (s *Sender) fly(ctx context.Context, c Claimed, lease time.Duration, ended chan<- handled) {
	h := handled{row: c, err: errCut}
	defer func() {
		if h.err != nil {
			h.err = fmt.Errorf("send outbox row %s: %w", c.ID, h.err)
		}
		ended <- h
	}()
	h.err = s.send(ctx, &h.report, c, lease)
}

// places are those of a workspace that a sender has in hand. The sender's mutex guards
// the numbers.
type places struct {
	runs  int
	taken int
	of    map[string]int // by receiver
	// looking is a semaphore: one run at a time looks for rows and takes places for
	// what it finds. So no receiver gets more than its share, and a run that finds no
	// place free leaves its rows to runs that will look again.
	looking chan struct{}
}

// enter begins a run in a workspace.
func (s *Sender) enter(ws db.Workspace) *places {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[ws]
	if p == nil {
		p = &places{of: map[string]int{}, looking: make(chan struct{}, 1)}
		if s.places == nil {
			s.places = map[db.Workspace]*places{}
		}
		s.places[ws] = p
	}
	p.runs++
	return p
}

// leave ends a run. The last one forgets the places of the workspace.
func (s *Sender) leave(ws db.Workspace, p *places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.runs--; p.runs == 0 {
		delete(s.places, ws)
	}
}

// take claims at most so many rows, each of which takes a place. A Limit of 0 says that
// no place was free.
func (s *Sender) take(ctx context.Context, p *places, r *Request, most int) (claimed []Claimed, over []Entry, err error) {
	select {
	case p.looking <- struct{}{}:
		defer func() { <-p.looking }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if !s.time(ctx, r) { // some of it went by meanwhile
		r.Limit = 0
		return nil, nil, ctx.Err()
	}
	if s.free(p, r, most); r.Limit == 0 {
		return nil, nil, nil
	}
	claimed, over, err = s.Store.claim(ctx, *r)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.taken += len(claimed)
	for _, c := range claimed {
		p.of[c.receiver()]++
	}
	return claimed, over, err
}

// free sets how many rows may be claimed, and whose are passed over. Should all of the
// rows be of one receiver, it has no more than its share.
func (s *Sender) free(p *places, r *Request, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busiest := 0 // of those that are not passed over
	r.Full = nil
	for receiver, n := range p.of {
		if n >= share {
			r.Full = append(r.Full, receiver)
		} else {
			busiest = max(busiest, n)
		}
	}
	r.Limit = min(atOnce-p.taken, share-busiest, most)
}

// vacate gives a place back.
func (s *Sender) vacate(p *places, c Claimed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	receiver := c.receiver()
	p.taken--
	if p.of[receiver]--; p.of[receiver] == 0 {
		delete(p.of, receiver)
	}
}

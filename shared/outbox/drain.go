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
	share  = atOnce / 2 // of them those of one receiver, before others come first
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
	var failed error
	ended, flying := make(chan handled), 0
	for more := true; ; {
		if more && failed == nil {
			if r.Claimed >= limit || !s.time(ctx, &request) {
				r.More, failed = true, ctx.Err()
			} else if s.reserve(&request, limit-r.Claimed); request.Limit > 0 {
				claimed, over, err := s.Store.claim(ctx, request)
				s.occupy(request, claimed)
				s.ended(ctx, &r, over)
				for _, c := range claimed {
					go s.fly(ctx, c, cmp.Or(request.Leases[c.Topic], request.Lease), ended)
				}
				r.Claimed, flying = r.Claimed+len(claimed), flying+len(claimed)
				if failed, more = err, len(claimed) == request.Limit; more {
					continue
				}
			} else if flying == 0 { // others of this process send
				r.More = true
			}
		}
		if flying == 0 {
			return r, failed
		}
		h := <-ended
		flying--
		r = r.plus(h.report)
		failed = cmp.Or(failed, h.err)
		s.vacate(h.row)
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

// places are those of a workspace that a sender has in hand, by receiver.
type places struct {
	taken int
	of    map[string]int
}

// reserve sets how many rows may be claimed, and whose are passed over.
func (s *Sender) reserve(r *Request, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[r.Workspace]
	if p == nil {
		p = &places{of: map[string]int{}}
		if s.places == nil {
			s.places = map[db.Workspace]*places{}
		}
		s.places[r.Workspace] = p
	}
	r.Limit, r.Full = min(share, atOnce-p.taken, most), nil
	p.taken += r.Limit
	for receiver, n := range p.of {
		if n >= share {
			r.Full = append(r.Full, receiver)
		}
	}
}

// occupy keeps the places of what was claimed, and gives the others back.
func (s *Sender) occupy(r Request, claimed []Claimed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[r.Workspace]
	p.taken -= r.Limit - len(claimed)
	for _, c := range claimed {
		p.of[c.receiver()]++
	}
	s.forget(r.Workspace)
}

// vacate gives a place back.
func (s *Sender) vacate(c Claimed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, receiver := s.places[c.Workspace], c.receiver()
	p.taken--
	if p.of[receiver]--; p.of[receiver] == 0 {
		delete(p.of, receiver)
	}
	s.forget(c.Workspace)
}

// forget drops the places of a workspace of which none is taken.
func (s *Sender) forget(ws db.Workspace) {
	if s.places[ws].taken == 0 {
		delete(s.places, ws)
	}
}

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
	atOnce = 8          // rows of a workspace that a sender handles at the same time
	share  = atOnce / 2 // the most of them for one receiver
)

// errCut says that a handler has ended its goroutine.
var errCut = errors.New("the handler was cut off")

// handled is the outcome of a row that a handler had.
type handled struct {
	row    Claimed
	report Report
	err    error
}

// Drain sends due rows, up to eight at a time. It stops when no row is due, when limit rows were
// claimed, or when little of the context's time is left. It sends the rows of one order key one
// after the other. A slow receiver gets at most half of the places. An error says that the outbox
// could not be read or written, or that the context has ended; the next run finds the rows. All
// goroutines have ended when Drain returns.
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
				r.More = r.More || request.Limit == 0 && flying == 0 // other runs of this process have all places
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
		more = !r.More // the row's end may have made others due: its successor, new rows, or the row itself
	}
}

// fly passes one row to its handler and sends the outcome to ended.
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

// places counts the rows of a workspace that a sender handles. The sender's mutex guards the
// numbers.
type places struct {
	runs  int
	taken int
	of    map[string]int // by receiver
	// looking is a semaphore: one run at a time claims rows and takes places for them. This keeps
	// each receiver within its share. A run that finds no free place leaves its rows to runs that
	// will claim again.
	looking chan struct{}
}

// enter registers a run in a workspace.
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

// leave unregisters a run. The last run removes the places of the workspace.
func (s *Sender) leave(ws db.Workspace, p *places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.runs--; p.runs == 0 {
		delete(s.places, ws)
	}
}

// take claims at most the given number of rows. Each row takes a place. r.Limit is 0 afterwards if
// no place was free.
func (s *Sender) take(ctx context.Context, p *places, r *Request, most int) (claimed []Claimed, over []Entry, err error) {
	select {
	case p.looking <- struct{}{}:
		defer func() { <-p.looking }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if !s.time(ctx, r) { // waiting for the semaphore took time
		r.Limit = 0
		return nil, nil, ctx.Err()
	}
	if s.free(p, r, most); r.Limit == 0 {
		return nil, nil, nil
	}
	claimed, over, err = s.Store.claim(ctx, *r)
	if unsure, ok := errors.AsType[*claimError](err); ok {
		s.owe(r.Workspace, unsure.token)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.taken += len(claimed)
	for _, c := range claimed {
		p.of[c.receiver()]++
	}
	return claimed, over, err
}

// free sets the limit of a claim and the receivers to skip. The limit keeps a receiver within its
// share even if all claimed rows are for that receiver.
func (s *Sender) free(p *places, r *Request, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busiest := 0 // rows of the busiest receiver that is not skipped
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

// vacate frees the place of a row.
func (s *Sender) vacate(p *places, c Claimed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	receiver := c.receiver()
	p.taken--
	if p.of[receiver]--; p.of[receiver] == 0 {
		delete(p.of, receiver)
	}
}

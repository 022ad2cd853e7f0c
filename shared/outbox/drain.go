package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
// after the other. A slow receiver gets at most half of the places. Topics whose handlers are [Apart]
// have places of their own. An error says that the outbox
// could not be read or written, or that the context has ended; the next run finds the rows. All
// goroutines have ended when Drain returns.
func (s *Sender) Drain(ctx context.Context, ws db.Workspace, limit int) (Report, error) {
	var r Report
	request := Request{Workspace: ws, Holder: s.Holder}
	for topic, h := range s.Handlers {
		if unkeyed(h) {
			request.Unkeyed = append(request.Unkeyed, topic)
		}
		if endless(h) {
			request.Endless = append(request.Endless, topic)
		}
	}
	if len(s.Handlers) == 0 {
		return r, nil
	}
	p := s.enter(ws)
	defer s.leave(ws, p)
	pools := s.pools()
	var failed error
	ended, flying := make(chan handled), 0
	for more := true; ; {
		if more && failed == nil {
			if r.Claimed >= limit || !s.time(ctx, &request) {
				r.More, failed = true, ctx.Err()
			} else {
				claimed, over, err := s.take(ctx, p, pools, &request, limit-r.Claimed)
				s.ended(ctx, &r, over)
				for _, c := range claimed {
					go s.fly(ctx, c, cmp.Or(request.Leases[c.Topic], request.Lease), ended)
				}
				r.Claimed, flying = r.Claimed+len(claimed), flying+len(claimed)
				if failed, more = err, len(claimed) == request.Limit; more && request.Limit > 0 {
					continue
				}
				// other runs of this process have all places of a topic
				r.More = r.More || flying == 0 && len(request.Topics) < len(s.Handlers)
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
	taken map[string]int    // by pool
	of    map[recipient]int // by receiver
	// looking is a semaphore: one run at a time claims rows and takes places for them. This keeps
	// each receiver within its share. A run that finds no free place leaves its rows to runs that
	// will claim again.
	looking chan struct{}
}

// recipient is a receiver of the topics of a pool.
type recipient struct{ pool, name string }

// pool is a number of places that topics share.
type pool struct {
	topics    []string
	all, each int
}

// common is the pool of all topics whose handlers are not [Apart]. No topic has that name.
const common = ""

// pools returns the pools of the sender's topics. A topic that is [Apart] has a pool of its name.
func (s *Sender) pools() map[string]pool {
	out := map[string]pool{}
	for _, topic := range s.Topics() {
		if a, ok := s.Handlers[topic].(Apart); ok {
			all, each := a.Places()
			out[topic] = pool{[]string{topic}, all, each}
			continue
		}
		out[common] = pool{append(out[common].topics, topic), atOnce, share}
	}
	return out
}

// poolOf returns the name of a topic's pool.
func (s *Sender) poolOf(topic string) string {
	if _, ok := s.Handlers[topic].(Apart); ok {
		return topic
	}
	return common
}

// recipient returns the receiver whose share of places a row uses.
func (s *Sender) recipient(c Claimed) recipient { return recipient{s.poolOf(c.Topic), c.receiver()} }

// enter registers a run in a workspace.
func (s *Sender) enter(ws db.Workspace) *places {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[ws]
	if p == nil {
		p = &places{taken: map[string]int{}, of: map[recipient]int{}, looking: make(chan struct{}, 1)}
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
func (s *Sender) take(ctx context.Context, p *places, pools map[string]pool, r *Request, most int) (claimed []Claimed,
	over []Entry, err error) {
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
	if s.free(p, pools, r, most); r.Limit == 0 {
		return nil, nil, nil
	}
	claimed, over, err = s.Store.claim(ctx, *r)
	if unsure, ok := errors.AsType[*claimError](err); ok {
		s.owe(r.Workspace, unsure.token, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claimed {
		to := s.recipient(c)
		p.taken[to.pool]++
		p.of[to]++
	}
	return claimed, over, err
}

// free sets the limit of a claim, the topics that have free places, and the receivers to skip. The
// limit keeps a receiver and a pool within their places even if all claimed rows are theirs.
func (s *Sender) free(p *places, pools map[string]pool, r *Request, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busiest := map[string]int{} // by pool: rows of the busiest receiver that is not skipped
	r.Full, r.Topics, r.Limit = nil, nil, 0
	for to, n := range p.of {
		if n >= pools[to.pool].each {
			r.Full = append(r.Full, to.name)
		} else {
			busiest[to.pool] = max(busiest[to.pool], n)
		}
	}
	limit := most
	for name, is := range pools {
		if room := is.all - p.taken[name]; room > 0 {
			r.Topics = append(r.Topics, is.topics...)
			limit = min(limit, room, is.each-busiest[name])
			r.Limit = limit
		}
	}
	slices.Sort(r.Topics)
}

// vacate frees the place of a row.
func (s *Sender) vacate(p *places, c Claimed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.recipient(c)
	p.taken[to.pool]--
	if p.of[to]--; p.of[to] == 0 {
		delete(p.of, to)
	}
}

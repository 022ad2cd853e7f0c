// Package catchup finds the webhooks that a source of GitHub has missed. GitHub tries each delivery
// once, and lists for a few days what became of it.
//
// What is missing is not taken from that list, but sent again by GitHub when it is asked to: so it
// comes through the one door, signed over its raw bytes, which the list does not have. It keeps its
// id, so that what came meanwhile is a duplicate.
package catchup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Catcher is the outbox's handler of [inbox.CatchUpTopic]. Its rows come back time and again. It keeps
// no state between calls and is safe for concurrent use.
type Catcher struct {
	Inbox   *inbox.Store
	Secrets secret.Resolver
	// Do sends a request, and dials guarded.
	Do  func(*http.Request) (*http.Response, error)
	API string // of GitHub; empty: the public one
	Log *slog.Logger
}

const (
	every     = 10 * time.Minute // looks
	soon      = time.Minute      // after which one goes on that has not come to its end
	longest   = time.Hour        // between looks of which each fails
	patience  = 6 * time.Hour    // that GitHub may ask for
	limit     = 30 * time.Second
	maxPages  = 5  // in one call
	maxAsks   = 20 // in one call
	maxTimes  = 3  // that one delivery is asked for
	maxOpen   = 300
	settles   = 2 * time.Minute    // after it was sent, a delivery is missing
	overlap   = 5 * time.Minute    // of two looks: GitHub has a clock of its own
	kept      = 3 * 24 * time.Hour // GitHub keeps what it has sent
	askAgain  = 9 * time.Minute    // after which a delivery that has not come is asked for again
	forgotten = time.Hour          // after the last ask
)

// Limit implements [outbox.Limited].
func (c *Catcher) Limit() time.Duration { return limit }

// Handle looks for what a source has missed, and has GitHub send it again. Its row is due again after
// ten minutes, sooner where there is more to do, and later where GitHub refuses or fails.
func (c *Catcher) Handle(ctx context.Context, row outbox.Claimed) error {
	id, ok := inbox.CatchUpOf(row.Payload)
	if !ok {
		return outbox.Permanently(errors.New("the row names no source"))
	}
	b, err := c.Inbox.Progress(ctx, row.Workspace, id)
	if errors.Is(err, inbox.ErrNotFound) { // it has been deleted, or does not catch up any more
		return nil
	}
	if err != nil {
		return err
	}
	l := &look{Catcher: c, ws: row.Workspace, Progress: b, asks: maxAsks}
	whole, failed := l.run(ctx)
	if l.database != nil {
		return l.database
	}
	wait := soon
	switch {
	case failed != nil:
		l.Failures++
		l.Error = failed.Error()
		wait = min(longest, every<<min(l.Failures-1, 5))
		if refused, is := errors.AsType[*refusedError](failed); is {
			wait = max(wait, min(refused.wait, patience))
		}
		c.Log.WarnContext(ctx, "missed webhooks could not be looked for", "source", b.Name, "error", failed, "again", wait.String())
	case whole:
		wait = every
		fallthrough
	default:
		l.Failures, l.Error, l.At = 0, "", l.Now
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	if err := c.Inbox.Caught(last, row.Workspace, l.Progress); err != nil {
		return err
	}
	if l.sent > 0 || l.givenUp > 0 {
		c.Log.InfoContext(ctx, "missed webhooks are sent again", "source", b.Name, "count", l.sent, "given_up", l.givenUp)
	}
	return outbox.LaterIn(wait, errors.New("it looks again for what was missed"))
}

// look is one look at what GitHub has sent, or a part of it.
type look struct {
	*Catcher
	inbox.Progress
	ws       db.Workspace
	token    secret.Value
	asks     int // left
	sent     int
	givenUp  int
	database error // what has failed is ours
}

// errBudget says that as much was asked for as one call may.
var errBudget = errors.New("more is missing than one look asks for")

// run reports whether the look has come to its end.
func (l *look) run(ctx context.Context) (whole bool, err error) {
	if l.token, err = l.Secrets.Resolve(ctx, l.ws, l.Hook.Token); err != nil {
		if _, missing := errors.AsType[*secret.NotFoundError](err); missing {
			return false, fmt.Errorf("there is no secret %s", l.Hook.Token)
		}
		return false, errors.New("its token could not be opened")
	}
	if l.Asked == nil {
		l.Asked = map[string]inbox.Ask{}
	}
	if l.Until.IsZero() {
		l.Until, l.Cursor = l.Now.Add(-settles), ""
	}
	for i := range maxPages {
		p, err := l.page(ctx, l.Cursor)
		if stale, is := errors.AsType[*refusedError](err); is && stale.badRequest && l.Cursor != "" {
			l.Until, l.Cursor, l.Refused = time.Time{}, "", 0 // the page is gone: the look begins anew
		}
		if err != nil {
			return false, err
		}
		if i == 0 { // GitHub answers: where it does not, no ask counts
			if err := l.askAgain(ctx); err != nil {
				return false, over(err)
			}
		}
		if err := l.through(ctx, p); err != nil {
			return false, over(err)
		}
		if p.next == "" || l.reached(p) {
			l.Since, l.Until, l.Cursor = l.Until, time.Time{}, ""
			l.Missed, l.Refused = l.Missed+l.Refused, 0
			return true, nil
		}
		l.Cursor = p.next
		if err := l.Inbox.Caught(ctx, l.ws, l.Progress); err != nil {
			l.database = err
			return false, err
		}
	}
	return false, nil
}

// over is nil for a look that goes on with the next call.
func over(err error) error {
	if errors.Is(err, errBudget) {
		return nil
	}
	return err
}

// low is up to when the look goes back.
func (l *look) low() time.Time {
	low := l.Now.Add(-kept)
	if l.CreatedAt.After(low) {
		low = l.CreatedAt
	}
	if l.Since.After(low) {
		low = l.Since.Add(-overlap)
	}
	return low
}

func (l *look) reached(p page) bool {
	return slices.ContainsFunc(p.tries, func(t tried) bool { return t.DeliveredAt.Before(l.low()) })
}

// through asks for what is missing of a page, and counts what was refused for its content. The latest
// try of a delivery decides.
func (l *look) through(ctx context.Context, p page) error {
	var ids []string
	var tries []tried
	seen := map[string]bool{}
	for _, t := range p.tries {
		if _, asked := l.Asked[t.GUID]; asked || seen[t.GUID] || t.foreign() || t.DeliveredAt.Before(l.low()) || t.DeliveredAt.After(l.Until) {
			continue
		}
		seen[t.GUID] = true
		ids, tries = append(ids, t.GUID), append(tries, t)
	}
	known, err := l.known(ctx, ids)
	if err != nil {
		return err
	}
	refused := 0
	for _, t := range tries {
		switch {
		case known[t.GUID]:
		case t.final():
			if t.DeliveredAt.After(l.Since) { // the look before has counted the others
				refused++
			}
		default:
			if err := l.ask(ctx, t.GUID, inbox.Ask{ID: t.ID}); err != nil {
				return err
			}
		}
	}
	l.Refused += refused // now that the page is not read again
	return nil
}

// askAgain asks again for what was asked for and has not come, and forgets the rest.
func (l *look) askAgain(ctx context.Context) error {
	open := slices.Sorted(maps.Keys(l.Asked))
	known, err := l.known(ctx, open)
	if err != nil {
		return err
	}
	for _, id := range open {
		a := l.Asked[id]
		switch passed := l.Now.Sub(a.At); {
		case known[id], a.Times > maxTimes && passed > forgotten:
			delete(l.Asked, id)
		case a.Times > maxTimes || passed < askAgain:
		case a.Times == maxTimes:
			l.giveUp(id, a)
		default:
			if err := l.ask(ctx, id, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *look) known(ctx context.Context, ids []string) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	known, err := l.Inbox.Known(ctx, l.ws, l.ID, ids)
	l.database = cmp.Or(l.database, err)
	return known, err
}

// giveUp notes that a delivery is not asked for any more.
func (l *look) giveUp(id string, a inbox.Ask) {
	a.Times, a.At = maxTimes+1, l.Now
	l.Asked[id] = a
	l.Missed++
	l.givenUp++
}

// ask has GitHub send a delivery again. One that GitHub fails to send counts as asked for, so that it
// holds up nothing else. Errors: what concerns all calls, and errBudget.
func (l *look) ask(ctx context.Context, id string, a inbox.Ask) error {
	if _, known := l.Asked[id]; l.asks == 0 || !known && len(l.Asked) >= maxOpen {
		return errBudget
	}
	l.asks--
	err := l.attempt(ctx, a.ID)
	refused, is := errors.AsType[*refusedError](err)
	switch {
	case err == nil:
		l.sent++
	case !is || refused.everything():
		return err
	case refused.status == http.StatusNotFound || refused.badRequest: // it can't be sent again
		l.giveUp(id, a)
		return nil
	}
	l.Asked[id] = inbox.Ask{ID: a.ID, Times: a.Times + 1, At: l.Now}
	return nil
}

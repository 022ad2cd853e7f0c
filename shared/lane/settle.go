package lane

import (
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

const (
	repeats     = 3 // repeats of a request whose answer was lost
	repeatPause = 50 * time.Millisecond
)

// settle sends requests until their outcome is known. It sets their tokens first, so that a
// repeated request finds the hold that the first one acquired. When the outcome stays unknown, or
// the caller's context ends, settle releases the holds under tokens that it made: nobody else could
// release them. The error is then a [db.ErrUncertain].
func (s *Store) settle(ctx context.Context, requests []Request, send func() error) error {
	var made []Request
	for i := range requests {
		token, err := tokenOf(requests[i])
		if err != nil {
			return err
		}
		if requests[i].Token == "" {
			requests[i].Token = token
			made = append(made, requests[i])
		}
	}
	err := send()
	if !errors.Is(err, db.ErrUncertain) {
		return err
	}
	unknown, pause := err, repeatPause
	for range repeats {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		err = send()
		if _, busy := errors.AsType[*BusyError](err); busy || err == nil {
			return err
		}
		if !errors.Is(err, db.ErrUncertain) && !errors.Is(err, db.ErrUnavailable) {
			break // the first request may have acquired the lane
		}
		pause *= 2
	}
	if !errors.Is(err, unknown) {
		err = errors.Join(unknown, err)
	}
	clean, cancel := LastWritesWithin(ctx, releaseTimeout)
	defer cancel()
	for _, r := range made {
		rerr := s.Drop(clean, &Hold{Lane: r.Lane, Workspace: r.Workspace, Token: r.Token})
		if rerr != nil && !errors.Is(rerr, ErrLost) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

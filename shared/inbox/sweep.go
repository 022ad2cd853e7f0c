package inbox

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const (
	maxRekicks = 3 // how often a delivery's outbox row is restored before a person has to look
	sweepLimit = 200
)

const (
	neverBegan = "it could not be begun, however often it was tried: a person has to look"
	// neverEnded is the reason for a delivery that was begun, which a person may redeliver.
	neverEnded = "it was cut off each time that it went on: redeliver it"
)

// Swept counts the deliveries that had lost their outbox rows.
type Swept struct {
	Kicked  int // they continue
	GivenUp int // they need a person
}

// Sweep finds open deliveries of a workspace whose outbox rows have ended or are gone, and restores
// these rows. It gives up a delivery whose row was restored several times, because something in it
// may end every process that works on it. Sweep also restores the rows by which sources catch up.
// It is called every minute and is safe for concurrent use: a delivery that another sweep or a person
// has changed meanwhile is left to them, and not counted.
func (s *Store) Sweep(ctx context.Context, ws db.Workspace) (Swept, error) {
	type lost struct {
		id, source string
		trace      trace.ID
		kicks      int
	}
	var found []lost
	err := s.db.Each(ctx, ws, db.Append(&found, func(scan db.Scan, l *lost) error {
		return scan(&l.id, &l.source, &l.trace, &l.kicks)
	}), s.q.Lost, maxRekicks, sweepLimit)
	if err != nil {
		return Swept{}, fmt.Errorf("look for deliveries that nothing goes on with: %w", err)
	}
	var sources []string
	if err := s.db.Each(ctx, ws, db.Column(&sources), s.q.LostSources); err != nil {
		return Swept{}, fmt.Errorf("look for webhook sources that nothing has catch up: %w", err)
	}
	var b db.Batch
	var kicked, givenUp []*db.Op
	for _, id := range sources {
		s.outbox.Revive(ctx, &b, kickCatchUp(id))
	}
	for _, l := range found {
		if l.kicks >= maxRekicks {
			givenUp = append(givenUp, b.Exec(s.q.GiveUp, l.id, l.kicks, neverBegan, neverEnded))
			continue
		}
		kicked = append(kicked, b.Exec(s.q.Rekick, l.id, l.kicks))
		row := kickFor(l.source, l.id)
		row.Trace = l.trace
		s.outbox.Revive(ctx, &b, row)
	}
	if b.Len() == 0 {
		return Swept{}, nil
	}
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return Swept{}, fmt.Errorf("have deliveries go on: %w", err)
	}
	return Swept{Kicked: affected(kicked), GivenUp: affected(givenUp)}, nil
}

func affected(ops []*db.Op) (n int) {
	for _, op := range ops {
		n += int(op.Affected())
	}
	return n
}

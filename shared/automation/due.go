package automation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Due is an automation whose time has come or whose event has happened.
type Due struct{ ID, Name string }

// Due adds a query for the due automations to a batch, the longest overdue first.
func (s *Store) Due(b *db.Batch, limit int) *[]Due {
	found := new([]Due)
	b.Each(db.Append(found, func(scan db.Scan, d *Due) error { return scan(&d.ID, &d.Name) }), s.q.Due, limit)
	return found
}

// Run is the call that a due automation asks for.
type Run struct {
	ID    string
	Name  string
	Skill string
	Input json.RawMessage
	Event *Event // the event that started it; nil for a schedule
	// Untrusted says that the input may contain untrusted text.
	Untrusted bool
}

// Event summarizes the events since the automation ran last.
type Event struct {
	Kind    string          `json:"kind"`
	Count   int             `json:"count"`             // at most 1000
	Subject string          `json:"subject,omitempty"` // of the latest event
	TraceID trace.ID        `json:"trace_id,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	At      time.Time       `json:"at"`
}

// ErrUnreadable says that this build can't read an automation's schedule, as one with a newer time zone.
var ErrUnreadable = errors.New("this build can't read the automation's schedule")

// Claim decides whether an automation is due, and sets when it is due next. However many times were
// missed, they cause one run. It returns false if the automation is not due. The transaction must
// prove the automation's lane. Errors: [ErrUnreadable].
func (s *Store) Claim(ctx context.Context, tx lane.Tx, id string) (Run, bool, error) {
	if err := tx.Proves(lane.Automation(id)); err != nil {
		return Run{}, false, fmt.Errorf("claim an automation: %w", err)
	}
	c, err := s.lock(ctx, tx, id)
	if err != nil {
		return Run{}, false, fmt.Errorf("claim an automation: %w", err)
	}
	if !c.enabled {
		return Run{}, false, nil
	}
	if c.event != "" {
		return s.claimEvent(ctx, tx, c)
	}
	if c.next == nil || c.next.After(c.now) {
		return Run{}, false, nil
	}
	schedule, err := ParseSchedule(c.cron, c.zone)
	if err != nil {
		return Run{}, false, fmt.Errorf("read the schedule of automation %s: %w: %w", id, ErrUnreadable, err)
	}
	var next *time.Time
	if t, ok := schedule.Next(c.now); ok {
		next = &t
	}
	tx.Later().Exec(s.q.Advance, id, next, nil, nil)
	return c.Run, true, nil
}

// Enabled locks an automation's row, and reports whether the automation still exists and is
// enabled.
func (s *Store) Enabled(ctx context.Context, tx lane.Tx, id string) (bool, error) {
	c, err := s.lock(ctx, tx, id)
	if err != nil {
		return false, fmt.Errorf("look whether an automation is enabled: %w", err)
	}
	return c.enabled, nil
}

// claimed is an automation whose row is locked.
type claimed struct {
	Run
	cron, zone, event string
	enabled           bool
	next              *time.Time
	xid, id           int64
	made, now         time.Time
	begun             int64
}

// lock locks and reads an automation's row. A deleted automation is returned as not enabled.
func (s *Store) lock(ctx context.Context, tx lane.Tx, id string) (claimed, error) {
	c := claimed{Run: Run{ID: id}}
	tx.Later().Exec(s.q.Lock, id)
	err := tx.Each(ctx, func(scan db.Scan) error {
		var input string
		err := scan(&c.Name, &c.Skill, &input, &c.Untrusted, db.Optional(&c.cron), db.Optional(&c.zone), db.Optional(&c.event),
			&c.enabled, &c.next, db.Optional(&c.xid), db.Optional(&c.id), &c.made, &c.now, &c.begun)
		c.Input = json.RawMessage(input)
		return err
	}, s.q.Claimed, id)
	if c.xid >= c.begun { // the cursor comes from another cluster, before a restore
		c.xid, c.id = 0, 0
	}
	return c, err
}

func (s *Store) claimEvent(ctx context.Context, tx lane.Tx, c claimed) (Run, bool, error) {
	e := Event{Kind: c.event}
	var xid, id int64
	err := tx.Each(ctx, func(scan db.Scan) error {
		return scan(&e.Count, &xid, &id, db.Optional(&e.Subject), db.Optional(&e.TraceID), db.Optional(&e.Data), &e.At)
	}, s.q.Happened, c.event, c.xid, c.id, c.made)
	if err != nil {
		return Run{}, false, fmt.Errorf("read the events of automation %s: %w", c.ID, err)
	}
	if e.Count == 0 {
		return Run{}, false, nil
	}
	c.Event = &e
	tx.Later().Exec(s.q.Advance, c.ID, nil, xid, id)
	return c.Run, true, nil
}

// Ended records how a run of an automation ended: success, error, pending_approval or skipped. The
// transaction must prove the automation's lane.
func (s *Store) Ended(tx lane.Tx, id, status string, of trace.ID) error {
	if err := tx.Proves(lane.Automation(id)); err != nil {
		return fmt.Errorf("end the run of an automation: %w", err)
	}
	tx.Later().Exec(s.q.Ended, id, status, db.Null(of))
	return nil
}

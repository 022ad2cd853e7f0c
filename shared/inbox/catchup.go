package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// CatchUpTopic is the outbox's for sources that catch up with what they missed.
const CatchUpTopic = "catch_up"

// Hook is the webhook of a repository on GitHub, which sends to a source. GitHub tries each delivery
// once: what did not come is asked for.
type Hook struct {
	Owner string `json:"owner"`
	Repo  string `json:"repo"`
	ID    int64  `json:"hook_id"`
	Token string `json:"token"` // the name of the secret
}

// legalRepo are the names that GitHub gives accounts and repositories.
var legalRepo = pattern.New(`^[A-Za-z0-9_.-]{1,100}$`)

func (h Hook) check(bad *problem.InvalidError, k Kind) {
	bad.If(k != GitHub, "hookId", "goes with the kind github only")
	for field, name := range map[string]string{"owner": h.Owner, "repo": h.Repo} {
		bad.If(!legalRepo().MatchString(name) || name == "." || name == "..", field,
			"must be a name as GitHub gives it: owner, repo, hookId and token go together")
	}
	bad.If(h.ID < 1, "hookId", "must be the number of the webhook: owner, repo, hookId and token go together")
	bad.If(!secret.ValidName(h.Token), "token", `must be {"$secret": name}: owner, repo, hookId and token go together`)
}

// CatchUp is how far a source has caught up. A look goes through the deliveries that GitHub lists,
// newest first, page by page.
type CatchUp struct {
	// Since is until when all deliveries were looked at.
	Since time.Time `json:"since,omitzero"`
	// Until is up to when the look goes that is under way, and Cursor its next page.
	Until  time.Time      `json:"until,omitzero"`
	Cursor string         `json:"cursor,omitempty"`
	Asked  map[string]Ask `json:"asked,omitempty"` // what GitHub was asked to send again, by the delivery's id

	At       time.Time `json:"at,omitzero"`        // when the last look ended
	Missed   int       `json:"missed,omitempty"`   // deliveries that are lost
	Refused  int       `json:"refused,omitempty"`  // of them, not yet in Missed: for their content, by the look that is under way
	Failures int       `json:"failures,omitempty"` // in a row
	Error    string    `json:"error,omitempty"`    // why the last look failed
}

// Ask is about a delivery that GitHub was asked to send again.
type Ask struct {
	ID    int64     `json:"id"` // of one try of it
	Times int       `json:"times"`
	At    time.Time `json:"at"`
}

// catchUpKick is the payload of the outbox row of a source that catches up.
type catchUpKick struct {
	Source string `json:"source"`
}

// CatchUpOf reads which source an outbox row is about.
func CatchUpOf(payload json.RawMessage) (source string, ok bool) {
	var k catchUpKick
	err := json.Unmarshal(payload, &k)
	return k.Source, err == nil && uuid.Validate(k.Source) == nil
}

// kickCatchUp is the outbox row by which a source catches up, time and again.
func kickCatchUp(source string) outbox.Row {
	payload, _ := json.Marshal(catchUpKick{source}) // always has one
	return outbox.Row{Kind: outbox.Kick, Topic: CatchUpTopic, Key: "catch_up:" + source, Payload: payload,
		Receiver: "catch_up:" + source, MaxAttempts: maxKicks}
}

// Progress is a source, how far it has caught up, and the time on the database's clock.
type Progress struct {
	Source
	CatchUp
	Now time.Time

	hook string // as it is stored
}

// Progress reads how far a source has caught up. It returns [ErrNotFound] where there is no such source,
// or it does not catch up.
func (s *Store) Progress(ctx context.Context, ws db.Workspace, source string) (Progress, error) {
	var found []Source
	b := Progress{}
	var batch db.Batch
	batch.Each(collectSources(&found), s.q.GetSource, source, source)
	batch.Each(func(scan db.Scan) error { return scan(&b.Now) }, s.q.Now, source)
	if err := s.db.Read(ctx, ws, &batch); err != nil {
		return Progress{}, fmt.Errorf("read how far a webhook source has caught up: %w", err)
	}
	if len(found) == 0 || found[0].Hook == nil || !found[0].Enabled {
		return Progress{}, ErrNotFound
	}
	b.Source = found[0]
	if found[0].Caught != nil {
		b.CatchUp = *found[0].Caught
	}
	hook, err := encodeHook(b.Hook)
	b.hook, _ = hook.(string)
	return b, err
}

// Caught notes how far a source has caught up, unless it is about another webhook by now.
func (s *Store) Caught(ctx context.Context, ws db.Workspace, b Progress) error {
	raw, err := json.Marshal(b.CatchUp)
	if err != nil {
		return fmt.Errorf("write how far a webhook source has caught up: %w", err)
	}
	if _, err := s.db.Exec(ctx, ws, s.q.Caught, b.ID, string(raw), b.hook); err != nil {
		return fmt.Errorf("note how far a webhook source has caught up: %w", err)
	}
	return nil
}

// Known are those of the ids of deliveries that a source has.
func (s *Store) Known(ctx context.Context, ws db.Workspace, source string, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	err := s.db.Each(ctx, ws, func(scan db.Scan) error {
		var id string
		err := scan(&id)
		known[id] = true
		return err
	}, s.q.Known, source, db.Encode(ids))
	if err != nil {
		return nil, fmt.Errorf("look which deliveries are there: %w", err)
	}
	return known, nil
}

func encodeHook(h *Hook) (any, error) {
	if h == nil {
		return nil, nil
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("write the webhook of a source: %w", err)
	}
	return string(raw), nil
}

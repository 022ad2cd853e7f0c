package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

var (
	// ErrTaken means that another workspace has the slug.
	ErrTaken = errors.New("a workspace of that slug exists")
	// ErrKept means that a workspace is the default one, which can't be deleted.
	ErrKept = errors.New("the default workspace stays")
	// ErrAtWork means that a workspace can't be deleted while work in it goes on.
	ErrAtWork = errors.New("something in the workspace is at work: stop it by a kill switch, and wait for its lanes")
	// ErrChanged means that somebody else has changed the workspace since it was read.
	ErrChanged = errors.New("the workspace has been changed meanwhile")
)

// Workspace is one row.
type Workspace struct {
	ID       db.Workspace
	Slug     string
	Name     string
	Settings Settings // unset ones have their defaults
	// Notifications say who is told of events, over channels.
	Notifications []Notification
	Version       int // counts changes
	CreatedAt     time.Time
	UpdatedAt     time.Time

	set map[string]json.RawMessage // as in the column, including unknown settings
}

// MaxName is the largest number of characters in a workspace's name.
const MaxName = 255

var legalSlug = pattern.New(`^[a-z0-9][a-z0-9-]*$`)

func checkName(bad *problem.InvalidError, name string) {
	n := utf8.RuneCountInString(name)
	bad.If(n < 1 || n > MaxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl), "name",
		"must be one line of 1 to 255 characters")
}

// CountMade counts the existing workspaces that by has made.
func (s *Store) CountMade(ctx context.Context, tx *db.Tx, by string) (n int, err error) {
	if err := tx.One(ctx, []any{&n}, s.q.CountMade, by); err != nil {
		return 0, fmt.Errorf("count workspaces: %w", err)
	}
	return n, nil
}

// Create adds a workspace that by makes. The transaction must be one of the new workspace, so that
// its first rows can follow. Errors: [problem.InvalidError], and [ErrTaken], after which the transaction
// is over.
func (s *Store) Create(ctx context.Context, tx *db.Tx, slug, name, by string) (Workspace, error) {
	name = strings.TrimSpace(name)
	bad := &problem.InvalidError{}
	bad.If(len(slug) > 63 || !legalSlug().MatchString(slug), "slug",
		"must be 1 to 63 lower-case letters, digits and - that don't begin with -")
	checkName(bad, name)
	if err := bad.OrNil(); err != nil {
		return Workspace{}, err
	}
	var made []Workspace
	err := tx.Each(ctx, collect(&made), s.q.Create, slug, name, by)
	switch {
	case errors.Is(err, db.ErrUnique):
		return Workspace{}, ErrTaken
	case err != nil:
		return Workspace{}, fmt.Errorf("create workspace: %w", err)
	}
	return made[0], nil
}

// Get reads a workspace. It returns [db.ErrNoRows] when there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace) (Workspace, error) {
	var found []Workspace
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get)
	return db.Found(found, err, "read workspace", fmt.Errorf("read workspace: %w", db.ErrNoRows))
}

// List reads the existing workspaces among ids, sorted by slug, in one round trip. The caller
// selects ids that its principal may see.
func (s *Store) List(ctx context.Context, ids []db.Workspace) ([]Workspace, error) {
	var found []Workspace
	var b db.Batch
	for _, id := range ids {
		b.Each(collect(&found), s.q.Named, id)
	}
	if err := s.db.Read(ctx, "", &b); err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	slices.SortFunc(found, func(a, b Workspace) int { return cmp.Compare(a.Slug, b.Slug) })
	return found, nil
}

// Notification has people told of events over a channel. A trigger on the table events reads it.
type Notification struct {
	Channel string   `json:"channel"`
	Address string   `json:"address"`
	Events  []string `json:"events"` // names, or only *
}

// MaxNotifications is the largest number of notifications of a workspace.
const MaxNotifications = 20

const notificationsKey = "notifications"

// Patch is a change of a workspace. A nil Name leaves the name unchanged.
type Patch struct {
	Name *string
	// Notifications replace the present ones; nil leaves them unchanged. The caller has checked their
	// channels, addresses and events.
	Notifications *[]Notification
	// Settings are new values by their names on the wire; nil restores the default. Settings that
	// are not named do not change.
	Settings map[string]*int64
}

// Patch changes a workspace that [Store.Get] has read, and returns the new state. The transaction
// must be one of this workspace. Errors: [problem.InvalidError], [ErrChanged].
func (s *Store) Patch(ctx context.Context, tx *db.Tx, w Workspace, p Patch) (Workspace, error) {
	bad := &problem.InvalidError{}
	if p.Name != nil {
		w.Name = strings.TrimSpace(*p.Name)
		checkName(bad, w.Name)
	}
	merged := map[string]json.RawMessage{}
	maps.Copy(merged, w.set)
	schema := Schema()
	for _, name := range slices.Sorted(maps.Keys(p.Settings)) {
		i := slices.IndexFunc(schema, func(s Setting) bool { return s.Name == name })
		if i < 0 {
			bad.If(true, "settings."+name, "is none that there is")
			continue
		}
		setting, v := schema[i], p.Settings[name]
		if v == nil {
			delete(merged, setting.key)
			continue
		}
		bad.If(!setting.admits(*v), "settings."+name, fmt.Sprintf("must be %d to %d", setting.Min, setting.Max))
		merged[setting.key] = fmt.Appendf(nil, "%d", *v)
	}
	if p.Notifications != nil {
		bad.If(len(*p.Notifications) > MaxNotifications, "settings.notifications", fmt.Sprintf("may be %d at most", MaxNotifications))
		delete(merged, notificationsKey)
		if len(*p.Notifications) > 0 {
			raw, err := json.Marshal(*p.Notifications)
			if err != nil {
				return Workspace{}, fmt.Errorf("change workspace: %w", err)
			}
			merged[notificationsKey] = raw
		}
	}
	if err := bad.OrNil(); err != nil {
		return Workspace{}, err
	}
	raw, err := json.Marshal(merged)
	if err != nil {
		return Workspace{}, fmt.Errorf("change workspace: %w", err)
	}
	var written []Workspace
	err = tx.Each(ctx, collect(&written), s.q.Patch, w.Version, w.Name, json.RawMessage(raw))
	return db.Found(written, err, "change workspace", ErrChanged)
}

// Delete deletes a small workspace with all its rows in one statement; the user records of its members
// stay. The transaction must be one of this workspace. Errors: [ErrKept], [ErrAtWork].
func (s *Store) Delete(ctx context.Context, tx *db.Tx, w Workspace) error {
	if err := s.unused(ctx, tx, w); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, s.q.Delete); err != nil {
		return fmt.Errorf("delete workspace: %w", err)
	}
	return nil
}

// Close begins the deletion of a workspace. From the commit on nobody can use it: it has no members, no
// keys and no lanes, another workspace may have its slug, and no schedule serves it. [Store.Erase] deletes
// it. The transaction must be one of this workspace. Errors: [ErrKept], [ErrAtWork].
func (s *Store) Close(ctx context.Context, tx *db.Tx, w Workspace) error {
	if err := s.unused(ctx, tx, w); err != nil {
		return err
	}
	for _, q := range []db.Query{s.q.CloseLanes, s.q.CloseMembers, s.q.CloseKeys, s.q.Close} {
		if _, err := tx.Exec(ctx, q); err != nil {
			return fmt.Errorf("close workspace: %w", err)
		}
	}
	return nil
}

// part is the most rows that one transaction deletes of a workspace.
const part = 2000

// Erase deletes a closed workspace with all its rows, in transactions of 2,000 rows. When ctx ends first,
// or another process does the same, the rest is left, and a later call deletes it. The user records of its
// members stay.
func (s *Store) Erase(ctx context.Context, ws db.Workspace) error {
	for more := true; more; {
		more = false
		err := s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
			return tx.Each(ctx, func(scan db.Scan) error { return scan(&more) }, s.q.Erase, part)
		})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("delete a part of a workspace: %w", err)
		}
		more = more && ctx.Err() == nil
	}
	return nil
}

// unused locks a workspace and its lanes, so that no lane of it is taken until the transaction has ended.
func (s *Store) unused(ctx context.Context, tx *db.Tx, w Workspace) error {
	if w.ID == Default {
		return ErrKept
	}
	// Lanes come first in the lock order. A lane that was added meanwhile is locked after the
	// workspace's row; that lock prevents further lanes.
	for _, q := range []db.Query{s.q.LockLanes, s.q.LockHead, s.q.LockLanes} {
		tx.Later().Exec(q)
	}
	var atWork bool
	if err := tx.One(ctx, []any{&atWork}, s.q.AtWork); err != nil {
		return fmt.Errorf("look whether a workspace is at work: %w", err)
	}
	if atWork {
		return ErrAtWork
	}
	return nil
}

func collect(into *[]Workspace) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, w *Workspace) error {
		var raw json.RawMessage
		if err := scan(&w.ID, &w.Slug, &w.Name, &raw, &w.Version, &w.CreatedAt, &w.UpdatedAt); err != nil {
			return err
		}
		var err error
		if w.Settings, err = decoded(raw); err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &w.set); err != nil {
			return fmt.Errorf("read workspace settings: %w", err)
		}
		if told := w.set[notificationsKey]; len(told) > 0 {
			if err := json.Unmarshal(told, &w.Notifications); err != nil {
				return fmt.Errorf("read workspace notifications: %w", err)
			}
		}
		return nil
	})
}

// Package heal disables skills that fail repeatedly, together with the automations that use them,
// and enables them again. Each time is an entry in a ledger, which a person can undo. After a
// cool-down, the skill is tried again. The package also finds executions that nobody works on.
package heal

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

const (
	// Streak is how many consecutive failures disable a skill.
	Streak = 3
	// Window is how far back failures count.
	Window = 3 * 24 * time.Hour
	// cooldown is how long a disabled skill rests before it is tried again. Each failed probe
	// doubles it, up to MaxCooldown. So does a relapse: a restored skill fails again within
	// MaxCooldown.
	cooldown = 24 * time.Hour
	// MaxCooldown is the longest cool-down. A heal counts for that long after it ended.
	MaxCooldown = 16 * 24 * time.Hour
	// patience is how long a probe may take. A daily automation runs within this time, and a beat
	// sees its result.
	patience = cooldown + 2*time.Hour
	// maxCool is the most skills that one beat tries again.
	maxCool = 50
)

var (
	// ErrNotFound says that there is no such entry.
	ErrNotFound = errors.New("there is no such heal")
	// ErrEnded says that an entry was undone, or has ended in another way.
	ErrEnded = errors.New("the heal has ended already")
)

// Status is the status of an entry of the ledger.
type Status string

// The statuses.
const (
	Active   Status = "active"   // the skill is disabled until its cool-down ends
	Probing  Status = "probing"  // its next call decides
	Restored Status = "restored" // it works again
	Undone   Status = "undone"   // undone by a person
	// Superseded: a person decided otherwise, the skill is gone, or a later failure replaced the entry.
	Superseded Status = "superseded"
)

// Heal is an entry of the ledger: one time that a skill was disabled.
type Heal struct {
	ID          string
	Skill       string
	Code        string // the class of its errors
	Failures    int    // consecutive
	Automations []string
	Status      Status
	Probes      int       // failed probes, including a relapse after a successful one
	ProbeAt     time.Time // the end of its cool-down, or the deadline of its probe
	Trace       trace.ID
	EndedBy     string
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Finding is a skill that fails, or a skill whose probe has a result.
type Finding struct {
	Skill    string
	Failures int
	Newest   string // success, or the class of the newest error
	Heal     string // the entry whose probe it is
}

// Report says what self-healing did, in codes and counts only. It becomes part of prompts, which
// must not contain texts of others.
type Report struct {
	Disabled []Change `json:"disabled,omitempty"`
	Outages  []Change `json:"outages,omitempty"` // of providers: nothing is disabled
	Probing  []Change `json:"probing,omitempty"`
	Restored []Change `json:"restored,omitempty"`
}

// Change is one line of a report.
type Change struct {
	Skill       string `json:"skill,omitempty"`
	Provider    string `json:"provider,omitempty"`
	Code        string `json:"code,omitempty"`
	Failures    int    `json:"failures,omitempty"`
	Skills      int    `json:"skills,omitempty"`
	Automations int    `json:"automations,omitempty"`
}

type queries struct {
	Diagnose, Used, Cool, Get, List, Insert, Supersede db.Query
	Open                                               db.Query
	Relapse, Change, LockOpen                          db.Query
	Orphans, Lock, Close, Silent, SilentNow            db.Query
}

// Store heals the skills of all workspaces.
type Store struct {
	db          *db.DB
	q           queries
	ids         func() string
	skills      *skill.Registry
	automations *automation.Store
	builtins    string // their names, as JSON
}

// New returns a store.
func New(d *db.DB, ids func() string, skills *skill.Registry, automations *automation.Store) (*Store, error) {
	s := &Store{db: d, ids: ids, skills: skills, automations: automations}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("heal: %w", err)
	}
	names, err := json.Marshal(skills.Builtins())
	if err != nil {
		return nil, fmt.Errorf("heal: encode the names of skills: %w", err)
	}
	s.builtins = string(names)
	return s, nil
}

// Look holds what there is to heal.
type Look struct {
	Findings []Finding
	Cool     []Heal // their cool-down, or the time for their probe, has ended
}

// Any reports whether there is anything to heal.
func (l *Look) Any() bool { return len(l.Findings)+len(l.Cool) > 0 }

// Look adds the two statements that find what there is to heal to a batch.
func (s *Store) Look(b *db.Batch) *Look {
	l := new(Look)
	b.Each(l.find, s.q.Diagnose, Streak, Window.Milliseconds(), s.builtins)
	b.Each(collect(&l.Cool), s.q.Cool, maxCool)
	return l
}

func (l *Look) find(scan db.Scan) error {
	var f Finding
	err := scan(&f.Skill, &f.Failures, &f.Newest, db.Optional(&f.Heal))
	l.Findings = append(l.Findings, f)
	return err
}

// Heal does what a look calls for, in one transaction that proves the heartbeat's lane. It decides
// probes, disables failing skills with their automations, and begins the probes of skills whose
// cool-down has ended. It repeats the look first, because a person may have changed a skill since.
// registered are the workspace's skills: they are needed to find the skills' providers.
func (s *Store) Heal(ctx context.Context, tx lane.Tx, ws db.Workspace, l *Look, registered []skill.Definition) (Report, error) {
	var r Report
	if err := tx.Proves(lane.Heartbeat); err != nil {
		return r, fmt.Errorf("heal: %w", err)
	}
	*l = Look{}
	tx.Later().Exec(s.q.LockOpen)
	tx.Later().Each(l.find, s.q.Diagnose, Streak, Window.Milliseconds(), s.builtins)
	if err := tx.Each(ctx, collect(&l.Cool), s.q.Cool, maxCool); err != nil {
		return r, fmt.Errorf("heal: look anew: %w", err)
	}
	used, err := s.used(ctx, tx, l)
	if err != nil {
		return r, err
	}
	failing, outages := byProvider(l.Findings, registered, used)
	r.Outages = outages
	for _, f := range failing {
		if err := s.decide(ctx, tx, ws, f, &r); err != nil {
			return r, fmt.Errorf("heal %s: %w", f.Skill, err)
		}
	}
	for _, h := range l.Cool {
		if slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.Skill == h.Skill }) {
			continue // it is decided already, or belongs to an outage
		}
		if err := s.probe(ctx, tx, ws, h, &r); err != nil {
			return r, fmt.Errorf("probe %s: %w", h.Skill, err)
		}
	}
	return r, nil
}

// used returns the skills that were used within the window, and whether their newest call has
// failed.
func (s *Store) used(ctx context.Context, tx lane.Tx, l *Look) (map[string]bool, error) {
	used := map[string]bool{}
	if len(l.Findings) == 0 {
		return used, nil
	}
	err := tx.Each(ctx, db.Put(used, func(scan db.Scan, name *string, failed *bool) error {
		return scan(name, failed)
	}), s.q.Used, Window.Milliseconds())
	if err != nil {
		return nil, fmt.Errorf("heal: read what was used: %w", err)
	}
	return used, nil
}

// byProvider separates outages from failing skills. A provider has an outage if the newest calls of
// at least two of its skills failed, and if these are more than half of its skills that were used
// within the window. Skills that failed too rarely to be disabled count too, and skills that are
// disabled because they failed.
func byProvider(found []Finding, registered []skill.Definition, used map[string]bool) (failing []Finding, outages []Change) {
	of, all, down, worst := map[string]string{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, d := range registered {
		p := provider(d)
		of[d.Name] = p
		if failed, ok := used[d.Name]; ok && (d.Enabled || d.DisabledBy == skill.SelfHealing) {
			all[p]++
			if failed {
				down[p]++
			}
		}
	}
	for _, f := range found {
		if f.Newest != success {
			p := of[f.Skill]
			worst[p] = max(worst[p], f.Failures)
		}
	}
	told := map[string]bool{}
	for _, f := range found {
		p, known := of[f.Skill]
		switch {
		case !known: // the skill is gone, or is not a skill
		case f.Newest == success, down[p] < 2, down[p]*2 <= all[p]:
			failing = append(failing, f)
		case !told[p]:
			told[p] = true
			outages = append(outages, Change{Provider: p, Code: "provider_outage", Skills: down[p], Failures: worst[p]})
		}
	}
	return failing, outages
}

const success = "success"

// provider returns what a skill depends on: a host, or else its kind.
func provider(d skill.Definition) string {
	var config struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(d.Config, &config) == nil && config.URL != "" {
		if u, err := url.Parse(config.URL); err == nil {
			return u.Hostname()
		}
	}
	return string(d.Kind)
}

// decide ends a probe, or disables a failing skill.
func (s *Store) decide(ctx context.Context, tx lane.Tx, ws db.Workspace, f Finding, r *Report) error {
	switch {
	case f.Heal == "":
		return s.disable(ctx, tx, ws, f, nil, r)
	case f.Newest != success:
		h, err := s.getIn(ctx, tx, f.Heal)
		if err != nil {
			return err
		}
		return s.disable(ctx, tx, ws, f, &h, r)
	}
	h, err := s.getIn(ctx, tx, f.Heal)
	if err != nil {
		return err
	}
	n, err := s.automations.EnableAgain(ctx, tx, h.Automations, len(h.Automations))
	if err != nil {
		return err
	}
	r.Restored = append(r.Restored, Change{Skill: h.Skill, Automations: n})
	return s.change(ctx, tx, h, Restored, h.Probes, 0, "self_healing")
}

// disable disables a skill and its automations. again is the entry whose probe has failed; it may
// be nil.
func (s *Store) disable(ctx context.Context, tx lane.Tx, ws db.Workspace, f Finding, again *Heal, r *Report) error {
	reason := fmt.Sprintf("%d failures in a row (%s)", f.Failures, cmp.Or(f.Newest, "unknown"))
	_, changed, err := s.skills.Disable(ctx, tx, ws, f.Skill, skill.SelfHealing, reason)
	if errors.Is(err, skill.ErrNotFound) || err == nil && !changed {
		return nil
	}
	if err != nil {
		return err
	}
	ids, err := s.automations.DisableUsing(ctx, tx, f.Skill, "its skill was disabled: "+reason)
	if err != nil {
		return err
	}
	r.Disabled = append(r.Disabled, Change{Skill: f.Skill, Code: cmp.Or(f.Newest, "unknown"), Failures: f.Failures, Automations: len(ids)})
	if again != nil {
		again.Automations = union(again.Automations, ids)
		return s.change(ctx, tx, *again, Active, again.Probes+1, rest(again.Probes+1), "")
	}
	// This entry takes over the automations that an earlier open entry disabled.
	var earlier []Heal
	if err := tx.Each(ctx, collect(&earlier), s.q.Supersede, f.Skill); err != nil {
		return fmt.Errorf("supersede a heal: %w", err)
	}
	for _, h := range earlier {
		ids = union(h.Automations, ids)
	}
	probes := 0
	err = tx.Each(ctx, func(scan db.Scan) error {
		err := scan(&probes)
		probes++
		return err
	}, s.q.Relapse, f.Skill, MaxCooldown.Milliseconds())
	if err != nil {
		return fmt.Errorf("look for a relapse: %w", err)
	}
	of, _ := trace.From(ctx)
	tx.Later().Exec(s.q.Insert, s.ids(), f.Skill, cmp.Or(f.Newest, "unknown"), f.Failures, db.List(ids), probes, rest(probes).Milliseconds(), of)
	return nil
}

// union returns both lists, sorted and without duplicates.
func union(a, b []string) []string {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

// rest returns the cool-down after a number of failed probes.
func rest(probes int) time.Duration {
	return min(cooldown<<min(probes, 10), MaxCooldown)
}

// probe enables a skill whose cool-down has ended, on probation, with one of its automations. Its
// next call decides. If no call happens for long, the other automations are enabled too: the first
// may wait for a rare event, or a person may have deleted it. If there are no others and there is
// still no call, the probation ends.
func (s *Store) probe(ctx context.Context, tx lane.Tx, ws db.Workspace, h Heal, r *Report) error {
	d, _, err := s.skills.Enable(ctx, tx, ws, h.Skill, skill.SelfHealing)
	if errors.Is(err, skill.ErrByHuman) || errors.Is(err, skill.ErrNotFound) {
		return s.change(ctx, tx, h, Superseded, h.Probes, 0, "a person")
	}
	if err != nil {
		return err
	}
	most := 1
	if h.Status == Probing {
		most = len(h.Automations)
	}
	n, err := s.automations.EnableAgain(ctx, tx, h.Automations, most)
	if err != nil {
		return err
	}
	if h.Status == Probing && n == 0 {
		r.Restored = append(r.Restored, Change{Skill: d.Name})
		return s.change(ctx, tx, h, Restored, h.Probes, 0, "self_healing")
	}
	r.Probing = append(r.Probing, Change{Skill: d.Name, Automations: n})
	return s.change(ctx, tx, h, Probing, h.Probes, patience, "")
}

// Undo enables immediately what a heal disabled: the skill, and its automations except those that a
// human has disabled. It returns the entry and the number of automations. Errors: [ErrNotFound],
// [ErrEnded], and [skill.ErrByHuman] if a human has disabled the skill since.
func (s *Store) Undo(ctx context.Context, tx Tx, ws db.Workspace, id, by string) (Heal, int, error) {
	tx.Later().Exec(s.q.LockOpen)
	h, err := s.getIn(ctx, tx, id)
	if err != nil {
		return Heal{}, 0, err
	}
	if h.Status != Active && h.Status != Probing {
		return h, 0, ErrEnded
	}
	if _, _, err := s.skills.Enable(ctx, tx, ws, h.Skill, skill.SelfHealing); err != nil && !errors.Is(err, skill.ErrNotFound) {
		return h, 0, fmt.Errorf("undo heal %s: %w", id, err)
	}
	n, err := s.automations.EnableAgain(ctx, tx, h.Automations, len(h.Automations))
	if err != nil {
		return h, 0, fmt.Errorf("undo heal %s: %w", id, err)
	}
	if err := s.change(ctx, tx, h, Undone, h.Probes, 0, by); err != nil {
		return h, 0, err
	}
	h, err = s.getIn(ctx, tx, id)
	return h, n, err
}

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx = automation.Tx

// change changes an entry. It must have been read after LockOpen.
func (s *Store) change(ctx context.Context, tx Tx, h Heal, to Status, probes int, wait time.Duration, by string) error {
	if _, err := tx.Exec(ctx, s.q.Change, h.ID, to, probes, wait.Milliseconds(), db.Null(by), db.List(h.Automations)); err != nil {
		return fmt.Errorf("change heal %s: %w", h.ID, err)
	}
	return nil
}

func (s *Store) getIn(ctx context.Context, tx Tx, id string) (Heal, error) {
	var found []Heal
	err := tx.Each(ctx, collect(&found), s.q.Get, id)
	return db.Found(found, err, "read heal "+id, ErrNotFound)
}

// Get reads an entry. Errors: [ErrNotFound].
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Heal, error) {
	var found []Heal
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id)
	return db.Found(found, err, "read heal "+id, ErrNotFound)
}

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Status Status
	Skill  string
	Before db.Position
	Limit  int
}

// List lists the ledger, newest first.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) ([]Heal, error) {
	var found []Heal
	if err := s.db.Each(ctx, ws, collect(&found), s.q.List, append(f.Before.Args(db.Null(f.Status), db.Null(f.Skill)),
		f.Limit)...); err != nil {
		return nil, fmt.Errorf("list heals: %w", err)
	}
	return found, nil
}

// Open lists the entries that are active or probing: at most one of each skill.
func (s *Store) Open(ctx context.Context, ws db.Workspace) ([]Heal, error) {
	var found []Heal
	if err := s.db.Each(ctx, ws, collect(&found), s.q.Open); err != nil {
		return nil, fmt.Errorf("list open heals: %w", err)
	}
	return found, nil
}

func collect(into *[]Heal) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, h *Heal) error {
		var automations string
		if err := scan(&h.ID, &h.Skill, &h.Code, &h.Failures, &automations, &h.Status, &h.Probes, &h.ProbeAt, &h.Trace,
			db.Optional(&h.EndedBy), &h.CreatedAt, &h.UpdatedAt); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(automations), &h.Automations); err != nil {
			return fmt.Errorf("read the automations of heal %s: %w", h.ID, err)
		}
		return nil
	})
}

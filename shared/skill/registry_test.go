package skill_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// world is a fresh workspace on one engine with a registry: three built-in skills, and two kinds
// that rows may have.
type world struct {
	dbtest.Env
	*skill.Registry
	q struct{ PutActivity, Break, Rename, Rows, Bad db.Query }
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	dbtest.Load(t, "testdata", &w.q)
	var err error
	if w.Registry, err = skill.NewRegistry(e.DB, ids, newSet(t, builtin("look", skill.Internal), builtin("speak", skill.External), guarded()), kinds); err != nil {
		t.Fatal(err)
	}
	return w
}

func builtin(name string, scope skill.Scope) skill.Skill {
	return skill.Skill{Name: name, Kind: skill.Builtin, Description: "Does " + name + ".", Parameters: []byte(`{"type": "object"}`), Scope: scope, Run: nothing}
}

// guarded returns a built-in skill that differs from the others in every field that a row may
// override.
func guarded() skill.Skill {
	k := builtin("guarded", skill.Both)
	k.RequiresApproval, k.Serial, k.Timeout = true, true, 20*time.Second
	return k
}

// kinds are not carried out by anything. A config must be {"good": true}.
var kinds = map[skill.Kind]skill.Factory{skill.HTTP: ofKind, skill.Lambda: ofKind}

func ofKind(d skill.Definition) (skill.Skill, error) {
	var c struct {
		Good bool `json:"good"`
	}
	if err := skill.DecodeConfig(d.Config, &c, "good", "headers", "url"); err != nil {
		return skill.Skill{}, err
	}
	if !c.Good {
		return skill.Skill{}, skill.Invalid("config.good", "must be true")
	}
	return skill.Skill{Do: func(context.Context, skill.Call) (any, error) { return d.Name, nil }}, nil
}

// definition returns a valid definition.
func definition(name string) skill.Definition {
	return skill.Definition{
		Name: name, Kind: skill.HTTP, Description: "Asks.", Parameters: []byte(`{"type":"object"}`), Config: []byte(`{"good":true}`),
		Scope: skill.Internal, Enabled: true, CreatedBy: "local:owner",
	}
}

func (w world) tx(t testing.TB, fn func(context.Context, *db.Tx) error) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, fn)
}

func (w world) create(t testing.TB, d skill.Definition) skill.Definition {
	t.Helper()
	created, err := w.tryCreate(t, d)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (w world) tryCreate(t testing.TB, d skill.Definition) (out skill.Definition, err error) {
	t.Helper()
	err = w.tx(t, func(ctx context.Context, tx *db.Tx) error { out, err = w.Create(ctx, tx, d); return err })
	return out, err
}

func (w world) patch(t testing.TB, ref string, p skill.Patch) (out skill.Definition, err error) {
	t.Helper()
	d := w.get(t, ref)
	err = w.tx(t, func(ctx context.Context, tx *db.Tx) error { out, err = w.Patch(ctx, tx, w.Workspace, d, p); return err })
	return out, err
}

func (w world) disable(t testing.TB, ref string, by skill.Actor, reason string) (changed bool, err error) {
	t.Helper()
	err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		_, changed, err = w.Disable(ctx, tx, w.Workspace, ref, by, reason)
		return err
	})
	return changed, err
}

func (w world) enable(t testing.TB, ref string, by skill.Actor) (changed bool, err error) {
	t.Helper()
	err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		_, changed, err = w.Enable(ctx, tx, w.Workspace, ref, by)
		return err
	})
	return changed, err
}

func (w world) remove(t testing.TB, ref string) error {
	t.Helper()
	return w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.Delete(ctx, tx, w.Workspace, ref); return err })
}

func (w world) get(t testing.TB, ref string) skill.Definition {
	t.Helper()
	d, err := w.Get(t.Context(), w.Workspace, ref)
	if err != nil {
		t.Fatalf("get %s: %v", ref, err)
	}
	return d
}

func (w world) rows(t testing.TB) (n int) {
	t.Helper()
	if err := w.DB.One(t.Context(), w.Workspace, []any{&n}, w.q.Rows); err != nil {
		t.Fatal(err)
	}
	return n
}

// usable returns the names of the skills that a surface gets.
func (w world) usable(t testing.TB, surface trace.Surface) []string {
	t.Helper()
	set, broken, err := w.Load(t.Context(), w.Workspace, surface)
	if err != nil || len(broken) > 0 {
		t.Fatal(err, broken)
	}
	return set.Names()
}

func ptr[T any](v T) *T { return &v }

func TestASkillIsRegisteredReadChangedAndDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := definition("ask_weather")
		d.Parameters = []byte(`{ "type": "object", "properties": {"town": {"type": "string"}, "at": {"type": "string"}}, "required": ["town"] }`)
		d.RequiresApproval, d.Serial, d.Timeout = true, true, 15*time.Second
		created := w.create(t, d)
		if created.ID == "" || created.Version != 1 || created.CreatedAt.IsZero() || created.CreatedBy != "local:owner" {
			t.Errorf("created %+v", created)
		}
		if want := `{"type":"object","properties":{"town":{"type":"string"},"at":{"type":"string"}},"required":["town"]}`; string(created.Parameters) != want {
			t.Errorf("parameters %s, want them in their order", created.Parameters)
		}
		for _, ref := range []string{created.ID, strings.ToUpper(created.ID), "ask_weather"} {
			got := w.get(t, ref)
			if got.ID != created.ID || got.Timeout != 15*time.Second || !got.RequiresApproval || !got.Serial || !got.Enabled || string(got.Parameters) != string(created.Parameters) {
				t.Errorf("%s is %+v", ref, got)
			}
		}
		changed, err := w.patch(t, created.ID, skill.Patch{Description: ptr("Asks anew."), Scope: ptr(skill.Both), Timeout: ptr(time.Duration(0)), Serial: ptr(false)})
		if err != nil {
			t.Fatal(err)
		}
		if changed.Description != "Asks anew." || changed.Scope != skill.Both || changed.Timeout != 0 || changed.Serial || !changed.RequiresApproval || changed.Version != 2 {
			t.Errorf("changed %+v", changed)
		}
		if err := w.remove(t, "ask_weather"); err != nil {
			t.Fatal(err)
		}
		for _, ref := range []string{created.ID, "ask_weather", "Ask Weather", "", "x' OR '1'='1"} {
			if _, err := w.Get(t.Context(), w.Workspace, ref); !errors.Is(err, skill.ErrNotFound) {
				t.Errorf("%q: %v", ref, err)
			}
		}
		if err := w.remove(t, "ask_weather"); !errors.Is(err, skill.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
	})
}

func TestWorkspacesDoNotMeet(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := w.create(t, definition("ours"))
		there := w
		there.Workspace = dbtest.NewWorkspace(t, w.DB)
		if _, err := there.Get(t.Context(), there.Workspace, d.ID); !errors.Is(err, skill.ErrNotFound) {
			t.Errorf("read: %v", err)
		}
		if _, err := there.disable(t, d.ID, skill.Human, "x"); !errors.Is(err, skill.ErrNotFound) {
			t.Errorf("disabled: %v", err)
		}
		there.create(t, definition("ours"))
		if _, err := there.disable(t, "look", skill.Human, "x"); err != nil {
			t.Fatal(err)
		}
		if got := w.usable(t, trace.Operate); !slices.Equal(got, []string{"look", "guarded", "ours"}) {
			t.Errorf("we have %q", got)
		}
		if w.get(t, "look").ID == there.get(t, "look").ID {
			t.Error("a built-in skill has one id in two workspaces")
		}
	})
}

func TestANameIsTakenOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.create(t, definition("one"))
		for _, name := range []string{"one", "look", "guarded"} {
			if _, err := w.tryCreate(t, definition(name)); !errors.Is(err, skill.ErrTaken) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := w.rows(t); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
}

// Names may have any usual style, but must differ by more than the style.
func TestNamesOfAllStyles(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		names := []string{"Ask2", "askWeather", "send-mail", "snake_case"}
		for _, name := range names {
			if d := w.create(t, definition(name)); d.Name != name || w.get(t, name).ID != d.ID {
				t.Errorf("%s became %+v", name, d)
			}
		}
		for name, other := range map[string]string{
			"ask_weather": "askWeather", "AskWeather": "askWeather", "sendMail": "send-mail", "send_mail": "send-mail", "SNAKECASE": "snake_case", "ASK_2": "Ask2",
			"Look": "look", "guard-ed": "guarded",
		} {
			_, err := w.tryCreate(t, definition(name))
			alike, ok := errors.AsType[*skill.AlikeError](err)
			if !ok || alike.Name != name || alike.Other != other || !errors.Is(err, skill.ErrTaken) {
				t.Errorf("%s beside %s: %v", name, other, err)
			}
		}
		if got := w.usable(t, trace.Operate); !slices.Equal(got, append([]string{"look", "guarded"}, names...)) {
			t.Errorf("usable are %q", got)
		}
		set, _, err := w.Load(t.Context(), w.Workspace, trace.Operate)
		if err != nil {
			t.Fatal(err)
		}
		for asked, want := range map[string]string{"ask_weather": "askWeather", "SendMail": "send-mail", "snakeCase": "snake_case"} {
			if k, ok := set.Find(asked); !ok || k.Name != want {
				t.Errorf("%s is not taken for %s", asked, want)
			}
		}
		// Rows that an earlier release accepted are used under their own names.
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Rename, "Ask2", "ask_weather"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ask_weather", "askWeather"} {
			if set, _, err = w.Load(t.Context(), w.Workspace, trace.Operate); err != nil {
				t.Fatal(err)
			}
			if k, ok := set.Find(name); !ok || k.Name != name {
				t.Errorf("%s is not found beside its like", name)
			}
		}
	})
}

func TestABuiltInSkillHasARowOnlyWhereItDiffers(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		code := w.get(t, "guarded")
		if id, err := uuid.Parse(code.ID); err != nil || id.Version() != 5 || code.Version != 0 || !code.CreatedAt.IsZero() {
			t.Errorf("without a row it is %+v", code)
		}
		changed, err := w.patch(t, code.ID, skill.Patch{Scope: ptr(skill.Internal), RequiresApproval: ptr(false)})
		if err != nil {
			t.Fatal(err)
		}
		if changed.ID != code.ID || changed.Kind != skill.Builtin || changed.Scope != skill.Internal || changed.RequiresApproval || !changed.Serial ||
			changed.Timeout != 20*time.Second || changed.Version != 1 || changed.Description != "Does guarded." {
			t.Errorf("changed it is %+v", changed)
		}
		// Only the overrides are stored: the rest follows the code of a later version.
		later := guarded()
		later.Serial, later.Timeout, later.RequiresApproval = false, time.Minute, true
		newer, err := skill.NewRegistry(w.DB, ids, newSet(t, later), kinds)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := newer.Get(t.Context(), w.Workspace, code.ID); err != nil || d.Serial || d.Timeout != time.Minute || d.RequiresApproval || d.Scope != skill.Internal {
			t.Errorf("with newer code it is %+v (%v)", d, err)
		}
		if changed, err = w.patch(t, "guarded", skill.Patch{Timeout: ptr(90 * time.Second)}); err != nil || changed.Timeout != 90*time.Second || changed.Version != 2 {
			t.Errorf("with a time-out it is %+v (%v)", changed, err)
		}
		if changed, err = w.patch(t, "guarded", skill.Patch{Timeout: ptr(time.Duration(0))}); err != nil || w.get(t, "guarded").Timeout != 20*time.Second {
			t.Errorf("without one of its own it is %+v (%v)", changed, err)
		}
		if err := w.remove(t, "guarded"); err != nil {
			t.Fatal(err)
		}
		if got := w.get(t, "guarded"); got.Scope != skill.Both || !got.RequiresApproval || got.Version != 0 || w.rows(t) != 0 {
			t.Errorf("its row deleted, it is %+v", got)
		}
		if err := w.remove(t, code.ID); err != nil {
			t.Errorf("deleted once more: %v", err)
		}
	})
}

func TestABuiltInSkillsTextIsTheCodes(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for field, p := range map[string]skill.Patch{
			"description": {Description: ptr("Mine.")}, "parameters": {Parameters: []byte(`{"type":"object"}`)}, "config": {Config: []byte(`{}`)},
		} {
			_, err := w.patch(t, "look", p)
			if invalid, ok := errors.AsType[*skill.InvalidError](err); !ok || invalid.Fields[0].Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		if w.rows(t) != 0 {
			t.Error("a refused change left a row")
		}
		for _, name := range []string{"look", "brand_new"} {
			d := definition(name)
			d.Kind = skill.Builtin
			if _, err := w.tryCreate(t, d); err == nil {
				t.Errorf("%s was registered as built in", name)
			}
		}
	})
}

func TestAChangeIsOfTheVersionThatWasRead(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.create(t, definition("one"))
		for _, ref := range []string{"one", "look"} {
			read := w.get(t, ref)
			if _, err := w.patch(t, ref, skill.Patch{Serial: ptr(true)}); err != nil {
				t.Fatal(err)
			}
			err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.Patch(ctx, tx, w.Workspace, read, skill.Patch{Serial: ptr(false)})
				return err
			})
			if !errors.Is(err, skill.ErrChanged) || !w.get(t, ref).Serial {
				t.Errorf("%s: %v", ref, err)
			}
		}
	})
}

// Of many concurrent identical changes, one succeeds and the others get an error.
func TestAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const many = 8
		atOnce := func(refusal error, do func(context.Context, *db.Tx) error) {
			t.Helper()
			errs := make(chan error, many)
			for range many {
				go func() { errs <- w.DB.Tx(t.Context(), w.Workspace, do) }()
			}
			done := 0
			for range many {
				if err := <-errs; err == nil {
					done++
				} else if !errors.Is(err, refusal) {
					t.Errorf("got %v, want %v", err, refusal)
				}
			}
			if done != 1 {
				t.Errorf("%d did it", done)
			}
		}
		atOnce(skill.ErrTaken, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.Create(ctx, tx, definition("one"))
			return err
		})
		var turn atomic.Int64
		atOnce(skill.ErrTaken, func(ctx context.Context, tx *db.Tx) error { // each uses another spelling
			n := int(turn.Add(1)) % 8
			_, err := w.Create(ctx, tx, definition("two"+strings.Repeat("_", n)+"words"))
			return err
		})
		for _, ref := range []string{"one", "look"} {
			read := w.get(t, ref)
			atOnce(skill.ErrChanged, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.Patch(ctx, tx, w.Workspace, read, skill.Patch{Serial: ptr(true)})
				return err
			})
		}
	})
}

func TestDisablingAndEnabling(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.create(t, definition("one"))
		for _, ref := range []string{"one", "look"} {
			steps := []struct {
				name    string
				do      func() (bool, error)
				changed bool
				err     error
				by      skill.Actor
				reason  string
			}{
				{"enabled as it is", func() (bool, error) { return w.enable(t, ref, skill.SelfHealing) }, false, nil, "", ""},
				{"healed", func() (bool, error) { return w.disable(t, ref, skill.SelfHealing, "3 failures") }, true, nil, skill.SelfHealing, "3 failures"},
				{"healed again", func() (bool, error) { return w.disable(t, ref, skill.SelfHealing, "4 failures") }, false, nil, skill.SelfHealing, "3 failures"},
				{"given back", func() (bool, error) { return w.enable(t, ref, skill.SelfHealing) }, true, nil, "", ""},
				{"healed once more", func() (bool, error) { return w.disable(t, ref, skill.SelfHealing, "5 failures") }, true, nil, skill.SelfHealing, "5 failures"},
				{"a human's word", func() (bool, error) { return w.disable(t, ref, skill.Human, "off") }, true, nil, skill.Human, "off"},
				{"not self-healing's to take back", func() (bool, error) { return w.enable(t, ref, skill.SelfHealing) }, false, skill.ErrByHuman, skill.Human, "off"},
				{"nor to change", func() (bool, error) { return w.disable(t, ref, skill.SelfHealing, "6 failures") }, false, nil, skill.Human, "off"},
				{"enabled", func() (bool, error) { return w.enable(t, ref, skill.Human) }, true, nil, "", ""},
			}
			for _, s := range steps {
				changed, err := s.do()
				d := w.get(t, ref)
				if changed != s.changed || !errors.Is(err, s.err) || d.DisabledBy != s.by || d.DisabledReason != s.reason ||
					d.Enabled != (s.by == "") || (d.DisabledAt == nil) != d.Enabled {
					t.Errorf("%s, %s: changed %v, %v, then %+v", ref, s.name, changed, err, d)
				}
				if named := slices.Contains(w.usable(t, trace.Heartbeat), ref); named != d.Enabled {
					t.Errorf("%s, %s: usable %v", ref, s.name, named)
				}
			}
			if _, err := w.disable(t, ref, skill.Human, strings.Repeat("x", skill.MaxReason+1)); err == nil {
				t.Errorf("%s: a long reason was taken", ref)
			}
			if _, err := w.patch(t, ref, skill.Patch{Enabled: ptr(false)}); err != nil || w.get(t, ref).DisabledBy != skill.Human {
				t.Errorf("%s: by a patch: %+v (%v)", ref, w.get(t, ref), err)
			}
			since := w.get(t, ref).DisabledAt
			w.Skew.Advance(time.Hour)
			if _, err := w.patch(t, ref, skill.Patch{Serial: ptr(true)}); err != nil || !w.get(t, ref).DisabledAt.Equal(*since) {
				t.Errorf("%s: disabled at %v, then %v (%v)", ref, since, w.get(t, ref).DisabledAt, err)
			}
			if d, err := w.patch(t, ref, skill.Patch{Enabled: ptr(true)}); err != nil || !d.Enabled || d.DisabledAt != nil {
				t.Errorf("%s: enabled by a patch: %+v (%v)", ref, d, err)
			}
		}
		if _, err := w.enable(t, "nobody", skill.Human); !errors.Is(err, skill.ErrNotFound) {
			t.Errorf("enabled what is not there: %v", err)
		}
		off := definition("off")
		off.Enabled = false
		if d := w.create(t, off); d.Enabled || d.DisabledBy != skill.Human || d.DisabledAt == nil {
			t.Errorf("registered as disabled it is %+v", d)
		}
	})
}

func TestListing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var want []string
		for i := range 12 {
			d := definition(fmt.Sprintf("s_%02d", i))
			d.Kind = []skill.Kind{skill.HTTP, skill.Lambda}[i%2]
			d.Scope = []skill.Scope{skill.Internal, skill.External, skill.Both}[i%3]
			d.Enabled = i%4 != 0
			want = append(want, w.create(t, d).Name)
		}
		for _, name := range []string{"a", "s", "s_0", "zzz"} { // underscores and digits sort as bytes
			want = append(want, w.create(t, definition(name)).Name)
		}
		if _, err := w.disable(t, "speak", skill.Human, "x"); err != nil {
			t.Fatal(err)
		}
		want = append(want, "look", "speak", "guarded")
		slices.Sort(want)
		list := func(f skill.Filter) (names []string) {
			t.Helper()
			for pages := 0; ; pages++ {
				p, err := w.List(t.Context(), w.Workspace, f)
				if err != nil || len(p.Items) > 200 || f.Limit > 0 && len(p.Items) > f.Limit || pages > 30 {
					t.Fatalf("page %d of %d has %d items (%v)", pages, f.Limit, len(p.Items), err)
				}
				for _, d := range p.Items {
					names = append(names, d.Name)
				}
				if f.After = p.Next; f.After == "" {
					return names
				}
			}
		}
		for _, limit := range []int{0, 1, 2, 5, 18, 19, 20, 200, 1000} {
			if got := list(skill.Filter{Limit: limit}); !slices.Equal(got, want) {
				t.Errorf("pages of %d bring %q\nwant %q", limit, got, want)
			}
		}
		matches := map[string]struct {
			f  skill.Filter
			is func(skill.Definition) bool
		}{
			"kind":         {skill.Filter{Kind: skill.Lambda}, func(d skill.Definition) bool { return d.Kind == skill.Lambda }},
			"built in":     {skill.Filter{Kind: skill.Builtin}, func(d skill.Definition) bool { return d.Kind == skill.Builtin }},
			"no such kind": {skill.Filter{Kind: skill.MCP}, func(skill.Definition) bool { return false }},
			"scope":        {skill.Filter{Scope: skill.External}, func(d skill.Definition) bool { return d.Scope == skill.External }},
			"enabled":      {skill.Filter{Enabled: ptr(true)}, func(d skill.Definition) bool { return d.Enabled }},
			"disabled":     {skill.Filter{Enabled: ptr(false)}, func(d skill.Definition) bool { return !d.Enabled }},
			"all of it": {skill.Filter{Kind: skill.Builtin, Scope: skill.External, Enabled: ptr(false)}, func(d skill.Definition) bool {
				return d.Name == "speak"
			}},
		}
		for name, m := range matches {
			var fit []string
			for _, n := range want {
				if m.is(w.get(t, n)) {
					fit = append(fit, n)
				}
			}
			for _, limit := range []int{1, 3, 200} {
				m.f.Limit = limit
				if got := list(m.f); !slices.Equal(got, fit) {
					t.Errorf("%s by %d: %q, want %q", name, limit, got, fit)
				}
			}
		}
	})
}

package skill_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestASurfaceGetsWhatItsScopeAdmits(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, scope := range []skill.Scope{skill.Internal, skill.External, skill.Both} {
			d := definition("ask_" + string(scope))
			d.Scope = scope
			w.create(t, d)
		}
		internal, external := []string{"look", "guarded", "ask_both", "ask_internal"}, []string{"speak", "guarded", "ask_both", "ask_external"}
		for surface, want := range map[trace.Surface][]string{trace.Chat: external, trace.Operate: internal, trace.Heartbeat: internal, trace.Webhook: internal} {
			if got := w.usable(t, surface); !slices.Equal(got, want) {
				t.Errorf("%s gets %q, want %q", surface, got, want)
			}
		}
		if _, err := w.patch(t, "guarded", skill.Patch{Scope: ptr(skill.External)}); err != nil {
			t.Fatal(err)
		}
		if got := w.usable(t, trace.Operate); slices.Contains(got, "guarded") {
			t.Errorf("narrowed to visitors, the admin gets %q", got)
		}
	})
}

func TestALoadedSkillIsAsItWasRegistered(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := definition("ask")
		d.RequiresApproval, d.Serial, d.Timeout, d.Results = true, true, 7*time.Second, skill.TrustedResults
		d = w.create(t, d)
		if _, err := w.patch(t, "look", skill.Patch{RequiresApproval: ptr(true), Timeout: ptr(5 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		before := w.DB.Stats()
		set, broken, err := w.Load(t.Context(), w.Workspace, trace.Operate)
		if err != nil || len(broken) > 0 {
			t.Fatal(err, broken)
		}
		if cost := w.DB.Stats().Sub(before); cost.RoundTrips != 1 || cost.Statements != 1 {
			t.Errorf("loading costs %+v", cost)
		}
		if err := set.Sound(); err != nil {
			t.Error(err)
		}
		k, _ := set.Find("ask")
		if k.ID != d.ID || k.Kind != skill.HTTP || k.Description != "Asks." || !k.RequiresApproval || !k.Serial || k.Timeout != 7*time.Second || k.Results != skill.TrustedResults || !k.Remote() {
			t.Errorf("got %+v", k)
		}
		if out, err := k.Do(t.Context(), skill.Call{}); out != "ask" || err != nil {
			t.Errorf("it does %v, %v", out, err)
		}
		if k.Keyed {
			t.Error("a call that may have had its effect would be made again")
		}
		if _, err := w.patch(t, "ask", skill.Patch{Effect: ptr(skill.Read)}); err != nil {
			t.Fatal(err)
		}
		reads, _, err := w.Load(t.Context(), w.Workspace, trace.Operate)
		if err != nil {
			t.Fatal(err)
		}
		if k, _ := reads.Find("ask"); !k.Keyed {
			t.Error("a call that only reads is not made again after it was cut off")
		}
		look, _ := set.Find("look")
		if look.ID != w.get(t, "look").ID || !look.RequiresApproval || look.Timeout != 5*time.Second || look.Remote() || look.Run == nil {
			t.Errorf("got %+v", look)
		}
		if v := look.Check(t.Context(), []byte(`{}`)); len(v) > 0 {
			t.Errorf("its arguments: %v", v)
		}
		var b db.Batch // in a round trip that happens anyway
		loaded := w.LoadIn(&b, w.Workspace, trace.Operate)
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		if again, _ := loaded(); !slices.Equal(again.Names(), set.Names()) {
			t.Errorf("in a batch: %q, alone: %q", again.Names(), set.Names())
		}
	})
}

// A workspace's row does not change a surface's built-in skill.
func TestTheCodeOfABuiltInSkillStaysAsItIs(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		if _, err := w.patch(t, "guarded", skill.Patch{Serial: ptr(false), RequiresApproval: ptr(false), Scope: ptr(skill.Internal)}); err != nil {
			t.Fatal(err)
		}
		_ = w.usable(t, trace.Operate)
		if err := w.remove(t, "guarded"); err != nil {
			t.Fatal(err)
		}
		set, _, err := w.Load(t.Context(), w.Workspace, trace.Chat)
		if err != nil {
			t.Fatal(err)
		}
		if k, ok := set.Find("guarded"); !ok || !k.Serial || !k.RequiresApproval || k.Scope != skill.Both {
			t.Errorf("got %+v", k)
		}
	})
}

func TestABrokenRowBreaksNoOther(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		breaks := map[string][2]any{ // parameters, config
			"bad_config":  {nil, `{"good": false}`},
			"odd_config":  {nil, `{"good": true, "more": 1}`},
			"no_object":   {`{"type":"string"}`, nil},
			"no_json":     {`{"type":`, nil},
			"wide_schema": {`{"type":"object","anyOf":[{}]}`, nil},
			"bad_name":    {`{"type":"object","properties":{"a b":{}}}`, nil},
		}
		for name, how := range breaks {
			w.create(t, definition(name))
			if n, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Break, name, how[0], how[1]); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		w.create(t, definition("well"))
		other := definition("other_kind")
		other.Kind = skill.Lambda
		w.create(t, other)
		w.create(t, definition("was_free"))
		if n, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Rename, "was_free", "look"); n != 1 || err != nil { // as if the built-in skill look had been added later
			t.Fatal(n, err)
		}
		here, err := skill.NewRegistry(w.DB, ids, newSet(t, builtin("look", skill.Internal)), map[skill.Kind]skill.Factory{skill.HTTP: ofKind})
		if err != nil {
			t.Fatal(err)
		}
		set, broken, err := here.Load(t.Context(), w.Workspace, trace.Operate)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Names(); !slices.Equal(got, []string{"look", "well"}) {
			t.Errorf("the set has %q", got)
		}
		if k, _ := set.Find("look"); k.Kind != skill.Builtin {
			t.Error("a row stands in for a built-in skill")
		}
		var named []string
		for _, err := range broken {
			b, ok := errors.AsType[*skill.BrokenError](err)
			if !ok || b.ID == "" || !strings.Contains(err.Error(), b.Name) || b.Err == nil {
				t.Fatalf("%v", err)
			}
			named = append(named, b.Name)
			if strings.HasPrefix(b.Name, "other") != strings.Contains(err.Error(), "kind lambda") {
				t.Errorf("%v", err)
			}
		}
		want := []string{"bad_config", "bad_name", "look", "no_json", "no_object", "odd_config", "other_kind", "wide_schema"}
		if !slices.Equal(named, want) {
			t.Errorf("broken are %q, want %q", named, want)
		}
		// The row whose name was taken can still be found by its id, and deleted.
		for _, err := range broken {
			if b, _ := errors.AsType[*skill.BrokenError](err); b.Name == "look" {
				if d := w.get(t, b.ID); d.Kind != skill.HTTP {
					t.Errorf("by its id it is %+v", d)
				}
				if err := w.remove(t, b.ID); err != nil {
					t.Error(err)
				}
			}
		}
		if d := w.get(t, "look"); d.Kind != skill.Builtin {
			t.Errorf("look is %+v", d)
		}
	})
}

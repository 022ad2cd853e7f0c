package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// fails records failures of a skill until self-healing disables it.
func (w *world) fails(t testing.TB, name string) {
	t.Helper()
	of := w.Traces.New(trace.Heartbeat)
	for range heal.Streak {
		e := activity.Entry{Agent: activity.Operator, Surface: trace.Heartbeat, Skill: name, Status: activity.Error, Output: json.RawMessage(`{"class":"theirs"}`), Trace: of}
		if err := w.Activity.Write(t.Context(), w.Workspace, e); err != nil {
			t.Fatal(err)
		}
	}
	known, err := w.Registry.List(t.Context(), w.Workspace, skill.Filter{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	request := lane.Request{Workspace: w.Workspace, Lane: lane.Heartbeat, Holder: "test"}
	err = w.Lanes.Do(trace.With(t.Context(), of), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
		return w.Lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
			var b db.Batch
			_, err := w.Heals.Heal(ctx, tx, w.Workspace, w.Heals.Look(&b), known.Items)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

type healTold struct {
	ID, Skill, Code, Status, EndedBy string
	Failures                         int
	Automations                      []string
	ProbeAt                          *time.Time
	UpdatedAt                        time.Time
}

func TestAHealByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, name := range []string{"weather", "tides"} {
			w.must(t, 201, http.MethodPost, skillsPath, weather(t, `{"name":"`+name+`","config":{"url":"https://`+name+`.example/"},"parameters":{"type":"object"}}`), nil)
		}
		var a automationTold
		w.must(t, 201, http.MethodPost, automationsPath, `{"name":"a","skill":"weather","schedule":{"cron":"@daily"}}`, &a)
		w.fails(t, "weather")
		w.fails(t, "tides")

		names := func(query string) []string {
			return listed(t, w, "/api/v1/heals"+query, func(h healTold) string { return h.Skill })
		}
		for query, want := range map[string][]string{
			"": {"tides", "weather"}, "?limit=1": {"tides", "weather"}, "?skill=weather": {"weather"}, "?status=active": {"tides", "weather"}, "?status=undone": nil,
		} {
			if got := names(query); !slices.Equal(got, want) {
				t.Errorf("%s lists %v", query, got)
			}
		}
		id := listed(t, w, "/api/v1/heals?skill=weather", func(h healTold) string { return h.ID })[0]
		var h healTold
		w.must(t, 200, http.MethodGet, "/api/v1/heals/"+strings.ToUpper(id), "", &h)
		if h.Code != "theirs" || h.Failures != heal.Streak || h.Status != "active" || h.ProbeAt == nil || !slices.Equal(h.Automations, []string{a.ID}) {
			t.Errorf("it is %+v", h)
		}
		var undone healTold
		w.must(t, 200, http.MethodPost, "/api/v1/heals/"+id+"/undo", "", &undone)
		if undone.Status != "undone" || undone.EndedBy != "local:owner" || undone.ProbeAt != nil {
			t.Errorf("undone it is %+v", undone)
		}
		if w.must(t, 200, http.MethodGet, "/api/v1/heals/"+id, "", &h); !h.UpdatedAt.Equal(undone.UpdatedAt) {
			t.Errorf("changed at %s, then at %s", undone.UpdatedAt, h.UpdatedAt)
		}
		var s told
		if w.must(t, 200, http.MethodGet, skillPath("weather"), "", &s); !s.Enabled {
			t.Errorf("the skill is %+v", s)
		}
		if w.must(t, 200, http.MethodGet, automationsPath+"/a", "", &a); !a.Enabled {
			t.Errorf("the automation is %+v", a)
		}
		w.refused(t, 409, "ended", http.MethodPost, "/api/v1/heals/"+id+"/undo", "")

		other := listed(t, w, "/api/v1/heals?skill=tides", func(h healTold) string { return h.ID })[0]
		w.must(t, 200, http.MethodPost, skillPath("tides")+"/disable", `{"reason":"by hand"}`, nil)
		w.refused(t, 409, "by_human", http.MethodPost, "/api/v1/heals/"+other+"/undo", "")
	})
}

type switchTold struct {
	ID, Scope, Target, Reason, SetBy, ReleasedBy string
	Active                                       bool
}

// TestWhatASwitchStoppedGoesOn: when a kill switch is released, the work that looks only after minutes whether
// it is on is due at once.
func TestWhatASwitchStoppedGoesOn(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		kicked := 0
		w := newWorld(t, e, func(d *api.Deps) {
			d.Outbox = d.Approvals.Outbox
			d.Kick = func(db.Workspace) { kicked++ }
		})
		var k switchTold
		w.must(t, 201, http.MethodPost, "/api/v1/kill-switches", `{"scope":"workspace"}`, &k)
		kicks, _, err := w.Outbox.List(t.Context(), w.Workspace, outbox.Filter{Topic: coordinate.KickTopic})
		if err != nil || len(kicks) != 1 || kicked != 1 {
			t.Errorf("no cycle ends what runs: %+v, %v", kicks, err)
		}
		topics := []string{approval.Topic, inbox.Topic, turn.Topic, worker.Topic}
		var b db.Batch
		for _, topic := range topics {
			w.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: topic, Key: topic, Delay: time.Hour, Trace: w.Traces.New(trace.Webhook)})
		}
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		before := kicked
		w.must(t, 200, http.MethodPost, "/api/v1/kill-switches/"+k.ID+"/release", "", nil)
		b = db.Batch{}
		due := w.Outbox.Due(&b, topics...)
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil || *due != len(topics) {
			t.Errorf("%d of %d rows are due, %v", *due, len(topics), err)
		}
		if kicked != before+1 {
			t.Error("nobody looks after them")
		}
	})
}

// TestWhatWaitsForAModelGoesOn: when a person resets the circuit of a model, the turns and tasks that wait for the
// model are due as soon as every process has noticed.
func TestWhatWaitsForAModelGoesOn(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, func(d *api.Deps) { d.Outbox = d.Approvals.Outbox })
		if _, err := w.Circuits.Failed(t.Context(), w.Workspace, resilient.Key{Provider: "openai"}, llm.ClassBilling, 0); err != nil {
			t.Fatal(err)
		}
		var b db.Batch
		topics := []string{turn.Topic, worker.Topic}
		for _, topic := range topics {
			w.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: topic, Key: topic, Delay: time.Hour, Trace: w.Traces.New(trace.Webhook)})
		}
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		w.must(t, 204, http.MethodDelete, "/api/v1/circuits/openai%2F", "", nil)
		e.Skew.Advance(resilient.Noticed)
		b = db.Batch{}
		due := w.Outbox.Due(&b, topics...)
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil || *due != len(topics) {
			t.Errorf("%d of %d rows are due, %v", *due, len(topics), err)
		}
	})
}

func TestAKillSwitchByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const path = "/api/v1/kill-switches"
		var k switchTold
		got := w.must(t, 201, http.MethodPost, path, `{"scope":"skill","target":"look","reason":"it runs wild"}`, &k)
		if !k.Active || k.Target != "look" || k.Reason != "it runs wild" || k.SetBy != "local:owner" || got.header.Get("Location") != path+"/"+k.ID {
			t.Errorf("set %+v", k)
		}
		var same switchTold
		got = w.must(t, 200, http.MethodPost, path, `{"scope":"skill","target":"look","reason":"again"}`, &same)
		if same != k || got.header.Get("Location") != "" {
			t.Errorf("set again: %+v", same)
		}
		var all switchTold
		w.must(t, 201, http.MethodPost, path, `{"scope":"workspace"}`, &all)
		w.must(t, 200, http.MethodPost, path+"/"+k.ID+"/release", "", &k)
		var found switchTold
		w.must(t, 200, http.MethodGet, path+"/"+k.ID, "", &found)
		if k.Active || k.ReleasedBy != "local:owner" || found != k {
			t.Errorf("released %+v, found %+v", k, found)
		}
		for query, want := range map[string][]string{
			"": {"workspace", "skill"}, "?limit=1": {"workspace", "skill"}, "?active=true": {"workspace"}, "?active=false&limit=1": {"skill"},
		} {
			if got := listed(t, w, path+query, func(k switchTold) string { return k.Scope }); !slices.Equal(got, want) {
				t.Errorf("%s lists %v", query, got)
			}
		}
		if w.must(t, 200, http.MethodDelete, path+"/"+all.ID, "", &all); all.Active {
			t.Errorf("deleted %+v", all)
		}
		var again switchTold
		if w.must(t, 200, http.MethodDelete, path+"/"+all.ID, "", &again); again != all {
			t.Errorf("deleted again: %+v, want %+v", again, all)
		}
		if was := w.recorded(t, "kill_switch.release")["wasOn"]; was != false {
			t.Errorf("recorded is that it was on: %v", was)
		}
		w.must(t, 201, http.MethodPost, path, `{"scope":"skill","target":"look"}`, &k)
		if w.must(t, 201, http.MethodPost, path, `{"scope":"agent","target":" `+strings.ToUpper(working)+` "}`, &k); k.Target != working {
			t.Errorf("of an agent's id in capitals: %+v", k)
		}

		for body, at := range map[string]string{
			`{"scope":"workspace","target":"x"}`: "body.target", `{"scope":"agent"}`: "body.target", `{"scope":"world"}`: "body.scope", `{}`: "body",
			`{"scope":"agent","target":"` + strings.Repeat("ä", 200) + `"}`:     "body.target",
			`{"scope":"workspace","reason":"` + strings.Repeat("x", 501) + `"}`: "body.reason",
		} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, path, body); !p.at(at) {
				t.Errorf("%.60s: %+v, want %s", body, p.Errors, at)
			}
		}
	})
}

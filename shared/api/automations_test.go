package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

const automationsPath = "/api/v1/automations"

// automationTold holds the fields of an automation that the tests read.
type automationTold struct {
	ID, Name, Skill, DisabledBy, DisabledReason, CreatedBy string
	Input                                                  json.RawMessage
	Schedule                                               struct{ Cron, TimeZone, Event string }
	Enabled                                                bool
	DisabledAt, NextRunAt, LastRunAt                       *time.Time
}

// An API key may not run an untrusted automation whose skill writes. A person may run it by hand.
func TestAProgramRunsNoWordsOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made := map[string]int{}
		outside := func(name string, effect skill.Effect) skill.Skill {
			return skill.Skill{
				Name: name, Kind: skill.HTTP, Scope: skill.Internal, Effect: effect, Description: "Calls.", Parameters: json.RawMessage(`{"type":"object"}`),
				Do: func(context.Context, skill.Call) (any, error) { made[name]++; return "done", nil },
			}
		}
		w = newWorld(t, w.Env, func(d *api.Deps) {
			d.Auth = auth.New(tokens(w.Workspace), d.People.VerifyKey)
			d.Registry = registry(t, d.DB, outside("post", skill.Write), outside("fetch", skill.Read))
			d.Operate = operated(*d)
		})
		var key struct{ Key string }
		w.must(t, 201, http.MethodPost, "/api/v1/api-keys", `{"name":"ci","role":"ADMIN","scopes":["*"]}`, &key)
		for _, c := range []struct {
			skill   string
			outside bool
			byKey   int
		}{{"post", true, 409}, {"post", false, 200}, {"fetch", true, 200}, {"look", true, 200}} {
			var a automation.Automation
			if err := w.Env.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
				a, err = w.Automations.Create(ctx, tx, automation.Automation{
					Name: fmt.Sprint(c.skill, c.outside), Skill: c.skill, Input: json.RawMessage(`{}`), Event: "objective.created", CreatedBy: "scout", Untrusted: c.outside,
				})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			var item struct{ Outside bool }
			if w.must(t, 200, http.MethodGet, automationsPath+"/"+a.ID, "", &item); item.Outside != c.outside {
				t.Errorf("%s shows outside %t", a.Name, item.Outside)
			}
			before := made[c.skill]
			got := w.call(t, http.MethodPost, automationsPath+"/"+a.ID+"/run", key.Key, `{}`)
			if got.status != c.byKey || c.byKey == 409 && (!strings.Contains(string(got.body), "needs_approval") || made[c.skill] != before) {
				t.Errorf("%s by a key: %d %s, made %d times", a.Name, got.status, got.body, made[c.skill]-before)
			}
			w.must(t, 200, http.MethodPost, automationsPath+"/"+a.ID+"/run", `{}`, nil)
		}
	})
}

func TestAnAutomationByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var a automationTold
		got := w.must(t, 201, http.MethodPost, automationsPath,
			`{"name":"Every morning / at 9","skill":"look","input":{"a":1},"schedule":{"cron":"0 9 * * *","timeZone":"Europe/Berlin"}}`, &a)
		path := automationsPath + "/" + a.ID
		if got.header.Get("Location") != path || got.header.Get("ETag") != `"1"` {
			t.Errorf("created at %s, ETag %s", got.header.Get("Location"), got.header.Get("ETag"))
		}
		if a.Skill != "look" || compact(a.Input) != `{"a":1}` || a.Schedule.Cron != "0 9 * * *" || a.Schedule.TimeZone != "Europe/Berlin" || !a.Enabled ||
			a.NextRunAt == nil || a.LastRunAt != nil || a.CreatedBy != "local:owner" {
			t.Errorf("created %+v", a)
		}
		w.refused(t, 409, "taken", http.MethodPost, automationsPath, `{"name":"Every morning / at 9","skill":"look","schedule":{"cron":"@daily"}}`)
		var read automationTold
		if w.must(t, 200, http.MethodGet, automationsPath+"/"+url.PathEscape(a.Name), "", &read); read.ID != a.ID {
			t.Errorf("by its name: %+v", read)
		}

		var changed automationTold
		got = w.must(t, 200, http.MethodPatch, path, `{"name":"later","schedule":{"event":"memory.saved"}}`, &changed)
		if changed.Name != "later" || changed.Schedule.Cron != "" || changed.Schedule.Event != "memory.saved" || changed.NextRunAt != nil || got.header.Get("ETag") != `"2"` {
			t.Errorf("changed %+v", changed)
		}
		if got := w.callWith(t, http.MethodPatch, path, admin, `{"name":"x"}`, "If-Match", `"1"`); got.status != http.StatusPreconditionFailed {
			t.Errorf("of an older version: %d %s", got.status, got.body)
		}
		if got := w.callWith(t, http.MethodPatch, path, admin, `{"schedule":{"cron":"@hourly"}}`, "If-Match", `"2"`); got.status != http.StatusOK {
			t.Errorf("of this version: %d %s", got.status, got.body)
		}

		var off, again automationTold
		w.must(t, 200, http.MethodPatch, path, `{"enabled":false,"event":"memory.saved"}`, &off)
		w.must(t, 200, http.MethodPatch, path, `{"enabled":true,"schedule":{"cron":"@hourly"}}`, &again)
		if off.Enabled || off.DisabledBy != "human" || off.DisabledReason == "" || off.Schedule.Event != "memory.saved" || !again.Enabled || again.DisabledBy != "" || again.NextRunAt == nil {
			t.Errorf("switched by a patch: %+v, then %+v", off, again)
		}
		w.must(t, 200, http.MethodPost, path+"/disable", "", nil)
		w.must(t, 200, http.MethodPost, path+"/enable", "", nil)
		w.must(t, 200, http.MethodPost, path+"/disable", `{"reason":"it rains"}`, &a)
		if a.Enabled || a.DisabledBy != "human" || a.DisabledReason != "it rains" || a.DisabledAt == nil {
			t.Errorf("disabled %+v", a)
		}
		var on automationTold
		if w.must(t, 200, http.MethodPost, path+"/enable", "", &on); !on.Enabled || on.DisabledBy != "" || on.NextRunAt == nil {
			t.Errorf("enabled %+v", on)
		}

		w.must(t, 204, http.MethodDelete, path, "", nil)
		for _, ref := range []string{a.ID, "later", "%00"} {
			w.refused(t, 404, "not_found", http.MethodGet, automationsPath+"/"+ref, "")
			w.refused(t, 404, "not_found", http.MethodPatch, automationsPath+"/"+ref, `{}`)
			w.refused(t, 404, "not_found", http.MethodDelete, automationsPath+"/"+ref, "")
			w.refused(t, 404, "not_found", http.MethodPost, automationsPath+"/"+ref+"/enable", "")
			w.refused(t, 404, "not_found", http.MethodPost, automationsPath+"/"+ref+"/run", "")
		}
		want := []string{"automation.create", "automation.update", "automation.update", "automation.update", "automation.update",
			"automation.disable", "automation.enable", "automation.disable", "automation.enable", "automation.delete"}
		if got := w.changes(t); !slices.Equal(got, want) {
			t.Errorf("the log says %v", got)
		}
	})
}

// changes returns the names of people's changes in the activity log, oldest first.
func (w *world) changes(t testing.TB) (names []string) {
	t.Helper()
	var list struct{ Items []struct{ SkillName string } }
	w.must(t, 200, http.MethodGet, "/api/v1/activity?surface=operate&limit=200", "", &list)
	for _, item := range slices.Backward(list.Items) {
		names = append(names, item.SkillName)
	}
	return names
}

func TestAutomationsThatAreRefused(t *testing.T) {
	w := onOne(t)
	w.must(t, 201, http.MethodPost, skillsPath, weather(t, `{}`), nil)
	w.must(t, 201, http.MethodPost, skillsPath, `{"name":"hours","kind":"http","scope":"external","description":"for visitors","config":{"url":"https://a.example/"}}`, nil)
	for body, at := range map[string]string{
		`{"name":"a","skill":"hours","schedule":{"cron":"@daily"}}`:                                   "body.skill",
		`{"name":"a","skill":"nope","schedule":{"cron":"@daily"}}`:                                    "body.skill",
		`{"name":"a","skill":"look","schedule":{}}`:                                                   "body.schedule",
		`{"name":"a","skill":"look","schedule":{"cron":"@daily","event":"memory.saved"}}`:             "body.schedule",
		`{"name":"a","skill":"look","schedule":{"cron":"61 * * * *"}}`:                                "body.schedule.cron",
		`{"name":"a","skill":"look","schedule":{"cron":"@daily","timeZone":"Mars"}}`:                  "body.schedule.timeZone",
		`{"name":"a","skill":"look","schedule":{"event":"nope"}}`:                                     "body.schedule.event",
		`{"name":"a","skill":"look","schedule":{"event":"memory.saved"},"input":[]}`:                  "body.input",
		`{"name":"  ","skill":"look","schedule":{"cron":"@daily"}}`:                                   "body.name",
		`{"name":"a","skill":"weather","schedule":{"cron":"@daily"}}`:                                 "body.input",
		`{"name":"a","skill":"weather","schedule":{"cron":"@daily"},"input":{"town":1}}`:              "body.input.town",
		`{"name":"a","skill":"look","schedule":{"cron":"@daily"},"more":1}`:                           "body.more",
		`{"name":"a","skill":"look","schedule":{"cron":"@daily","minutes":1}}`:                        "body.schedule",
		`{"skill":"look","schedule":{"cron":"@daily"}}`:                                               "body",
		`{"name":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f","skill":"look","schedule":{"cron":"@daily"}}`: "body.name",
	} {
		if p := w.refused(t, 422, "invalid", http.MethodPost, automationsPath, body); !p.at(at) {
			t.Errorf("%s: %+v, want %s", body, p.Errors, at)
		}
	}
	var a automationTold
	w.must(t, 201, http.MethodPost, automationsPath, `{"name":"a","skill":"look","schedule":{"cron":"@daily"}}`, &a)
	for body, at := range map[string]string{`{"skill":"nope"}`: "body.skill", `{"skill":"hours"}`: "body.skill", `{"skill":"weather"}`: "body.input", `{"input":null}`: "body.input", `{"schedule":{"cron":""}}`: "body.schedule", `{"enabled":"yes"}`: "body.enabled"} {
		if p := w.refused(t, 422, "invalid", http.MethodPatch, automationsPath+"/a", body); !p.at(at) {
			t.Errorf("%s: %+v, want %s", body, p.Errors, at)
		}
	}
	if p := w.refused(t, 422, "invalid", http.MethodPost, automationsPath+"/a/disable", `{"reason":""}`); !p.at("body.reason") {
		t.Errorf("without a reason: %+v", p.Errors)
	}
	if p := w.refused(t, 422, "invalid", http.MethodGet, automationsPath+"?cursor=AAA", ""); !p.at("query.cursor") {
		t.Errorf("a wrong cursor: %+v", p.Errors)
	}
}

func TestAutomationsAreListedByName(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for i, schedule := range []string{`{"cron":"@daily"}`, `{"event":"memory.saved"}`, `{"cron":"@daily"}`} {
			w.must(t, 201, http.MethodPost, automationsPath, fmt.Sprintf(`{"name":"n%d","skill":"look","schedule":%s,"enabled":%v}`, i, schedule, i != 2), nil)
		}
		for query, want := range map[string][]string{
			"": {"n0", "n1", "n2"}, "?limit=2": {"n0", "n1", "n2"}, "?skill=look&enabled=true": {"n0", "n1"}, "?enabled=false": {"n2"},
			"?event=memory.saved": {"n1"}, "?skill=none": nil,
		} {
			if got := listed(t, w, automationsPath+query, func(a automationTold) string { return a.Name }); !slices.Equal(got, want) {
				t.Errorf("%s lists %v", query, got)
			}
		}
	})
}

// listed reads all pages of a listing.
func listed[T any](t testing.TB, w *world, path string, name func(T) string) (names []string) {
	t.Helper()
	u, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	for {
		var list struct {
			Items      []T
			NextCursor *string
		}
		u.RawQuery = query.Encode()
		w.must(t, 200, http.MethodGet, u.String(), "", &list)
		for _, item := range list.Items {
			names = append(names, name(item))
		}
		if list.NextCursor == nil {
			return names
		}
		query.Set("cursor", *list.NextCursor)
	}
}

func TestAnAutomationIsRunByHand(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.must(t, 201, http.MethodPost, automationsPath, `{"name":"a","skill":"look","input":{"x":1},"schedule":{"cron":"@daily"},"enabled":false}`, nil)
		var ran struct{ Status, ExecutionID, TraceID string }
		w.must(t, 200, http.MethodPost, automationsPath+"/a/run", "", &ran)
		if ran.Status != "succeeded" {
			t.Errorf("got %+v", ran)
		}
		var s story
		w.must(t, 200, http.MethodGet, "/api/v1/traces/"+ran.TraceID, "", &s)
		if len(s.Activities) != 1 || s.Activities[0].SkillName != "look" {
			t.Errorf("its story is %+v", s)
		}
		w.must(t, 201, http.MethodPost, skillsPath, weather(t, `{"enabled":false}`), nil)
		w.must(t, 201, http.MethodPost, automationsPath, `{"name":"b","skill":"weather","schedule":{"cron":"@daily"}}`, nil)
		w.refused(t, 409, "disabled", http.MethodPost, automationsPath+"/b/run", "")
		w.must(t, 200, http.MethodPost, skillPath("weather")+"/enable", "", nil)
		w.refused(t, 409, "input", http.MethodPost, automationsPath+"/b/run", "")
		w.must(t, 204, http.MethodDelete, skillPath("weather"), "", nil)
		w.refused(t, 409, "skill_gone", http.MethodPost, automationsPath+"/b/run", "")
	})
}

// TestAnAutomationRunsOnceAtATime: not by hand while a beat or a webhook runs it, and not by these while a person does.
func TestAnAutomationRunsOnceAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var a automationTold
		request := func() lane.Request {
			return lane.Request{Workspace: w.Workspace, Lane: lane.Automation(a.ID), Holder: "beat"}
		}
		held := false
		w = newWorld(t, w.Env, func(d *api.Deps) {
			d.Registry = registry(t, d.DB, skill.Skill{
				Name: "tidy", Kind: skill.HTTP, Scope: skill.Internal, Description: "Tidies.", Parameters: json.RawMessage(`{"type":"object"}`),
				Do: func(ctx context.Context, _ skill.Call) (any, error) {
					_, err := w.Lanes.Acquire(ctx, request())
					_, held = errors.AsType[*lane.BusyError](err)
					return "done", nil
				},
			})
			d.Operate = operated(*d)
		})
		w.must(t, 201, http.MethodPost, automationsPath, `{"name":"a","skill":"tidy","schedule":{"cron":"@daily"}}`, &a)
		beat, err := w.Lanes.Acquire(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		if p := w.refused(t, 409, "busy", http.MethodPost, automationsPath+"/a/run", ""); p.Holder != "beat" || held {
			t.Errorf("while a beat runs it: %+v", p)
		}
		if err := w.Lanes.Release(t.Context(), beat); err != nil {
			t.Fatal(err)
		}
		if w.must(t, 200, http.MethodPost, automationsPath+"/a/run", "", nil); !held {
			t.Error("a beat could run it at the same time")
		}
		if _, err = w.Lanes.Acquire(t.Context(), request()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// registry returns a registry with the built-in skill look, further built-in skills, and the kind
// http, which may not call private.example.
func registry(t testing.TB, d *db.DB, more ...skill.Skill) *skill.Registry {
	t.Helper()
	builtins, err := skill.NewSet(append(more, skill.Skill{
		Name: "look", Kind: skill.Builtin, Description: "Looks.", Parameters: json.RawMessage(`{"type":"object"}`), Scope: skill.Both,
		Run: func(context.Context, lane.Tx, skill.Call) (any, error) { return nil, nil },
	})...)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[skill.Kind]skill.Factory{skill.HTTP: remote.Kind(remote.Outbound{Check: func(raw string) error {
		if strings.Contains(raw, "private.example") {
			return errors.New("private: " + raw)
		}
		return nil
	}})}
	r, err := skill.NewRegistry(d, ids, builtins, kinds)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const skillsPath = "/api/v1/skills"

func skillPath(ref string) string { return skillsPath + "/" + ref }

// told holds the fields of a skill that clients read.
type told struct {
	ID, Name, Description, Kind, Scope, Effect, Results, DisabledBy, DisabledReason string
	Parameters, Config                                                              json.RawMessage
	RequiresApproval, Serial, Enabled                                               bool
	TimeoutSeconds                                                                  *int
	DisabledAt, CreatedAt, UpdatedAt                                                *time.Time
}

// weather returns the body of a valid registration with some fields changed. null removes a field.
func weather(t testing.TB, change string) string {
	t.Helper()
	body := map[string]json.RawMessage{}
	decode(t, []byte(`{"name":"weather","kind":"http","description":"Tells the weather.","config":{"url":"https://api.example/v1/{town}","method":"GET"},
		"parameters":{"type":"object","properties":{"town":{"type":"string"}},"required":["town"]}}`), &body)
	changes := map[string]json.RawMessage{}
	decode(t, []byte(change), &changes)
	maps.Copy(body, changes)
	maps.DeleteFunc(body, func(name string, v json.RawMessage) bool { return string(v) == "null" && name != "timeoutSeconds" })
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestASkillByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var made told
		got := w.must(t, 201, http.MethodPost, skillsPath, weather(t, `{"scope":"both","requiresApproval":true,"timeoutSeconds":20,"serial":true}`), &made)
		if made.ID == "" || got.header.Get("Location") != skillPath(made.ID) || got.header.Get("ETag") != `"1"` || made.CreatedAt == nil {
			t.Errorf("created %+v at %s, ETag %s", made, got.header.Get("Location"), got.header.Get("ETag"))
		}
		if made.Name != "weather" || made.Kind != "http" || made.Scope != "both" || !made.RequiresApproval || !made.Serial || !made.Enabled || *made.TimeoutSeconds != 20 {
			t.Errorf("created %+v", made)
		}
		if string(made.Parameters) != `{"type":"object","properties":{"town":{"type":"string"}},"required":["town"]}` {
			t.Errorf("parameters %s", made.Parameters)
		}
		w.refused(t, 409, "taken", http.MethodPost, skillsPath, weather(t, `{}`))
		w.refused(t, 409, "taken", http.MethodPost, skillsPath, weather(t, `{"name":"look"}`))

		for _, ref := range []string{made.ID, "weather"} {
			var read told
			if got := w.must(t, 200, http.MethodGet, skillPath(ref), "", &read); read.ID != made.ID || got.header.Get("ETag") != `"1"` {
				t.Errorf("%s is %+v", ref, read)
			}
		}
		var changed told
		got = w.must(t, 200, http.MethodPatch, skillPath("weather"), `{"description":"Tells more.","timeoutSeconds":null}`, &changed)
		if changed.Description != "Tells more." || changed.TimeoutSeconds != nil || !changed.RequiresApproval || got.header.Get("ETag") != `"2"` {
			t.Errorf("changed %+v", changed)
		}
		stale := request(http.MethodPatch, skillPath("weather"), owner, `{"serial":false}`)
		stale.Header.Set("If-Match", `"1"`)
		if got := w.send(t, stale); got.status != http.StatusPreconditionFailed {
			t.Errorf("of an older version: %d %s", got.status, got.body)
		}
		for i, tags := range []string{`"2"`, `*`, `"1", "4" , "9"`} {
			if got := w.callWith(t, http.MethodPatch, skillPath("weather"), owner, `{"serial":false}`, "If-Match", tags); got.status != http.StatusOK || got.header.Get("ETag") != fmt.Sprintf("%q", fmt.Sprint(i+3)) {
				t.Errorf("If-Match %s: %d %s", tags, got.status, got.body)
			}
		}
		for _, tags := range []string{`W/"5"`, `5`, `,`, `"1","2"`} {
			if got := w.callWith(t, http.MethodPatch, skillPath("weather"), owner, `{"serial":false}`, "If-Match", tags); got.status != http.StatusPreconditionFailed {
				t.Errorf("If-Match %s: %d %s", tags, got.status, got.body)
			}
		}

		var off told
		w.must(t, 200, http.MethodPost, skillPath("weather")+"/disable", `{"reason":"it rains"}`, &off)
		if off.Enabled || off.DisabledBy != "human" || off.DisabledReason != "it rains" || off.DisabledAt == nil {
			t.Errorf("disabled %+v", off)
		}
		var on told
		w.must(t, 200, http.MethodPost, skillPath("weather")+"/enable", "", &on)
		if !on.Enabled || on.DisabledBy != "" || on.DisabledReason != "" || on.DisabledAt != nil {
			t.Errorf("enabled %+v", on)
		}
		if got := w.must(t, 204, http.MethodDelete, skillPath(made.ID), "", nil); len(got.body) > 0 {
			t.Errorf("deleted: %s", got.body)
		}
		for _, ref := range []string{made.ID, "weather", "nobody", "0190c2d4-0000-7000-8000-00000000000f"} {
			for method, path := range map[string]string{http.MethodGet: "", http.MethodDelete: "", http.MethodPatch: ""} {
				w.refused(t, 404, "not_found", method, skillPath(ref)+path, body(method, `{}`))
			}
			w.refused(t, 404, "not_found", http.MethodGet, skillPath(ref)+"/health", "")
			w.refused(t, 404, "not_found", http.MethodPost, skillPath(ref)+"/enable", `{}`)
			w.refused(t, 404, "not_found", http.MethodPost, skillPath(ref)+"/disable", `{"reason":"x"}`)
		}
	})
}

// body returns a request's body if its method has one.
func body(method, text string) string {
	if method == http.MethodPatch {
		return text
	}
	return ""
}

// TestNullIsAsLeftOut: clients write null for what they do not set when they create something.
func TestNullIsAsLeftOut(t *testing.T) {
	w := onOne(t)
	var first struct{ ID string }
	w.must(t, 201, http.MethodPost, agentTasks, `{"title":"x","inputContext":null,"metadata":null}`, nil)
	made := weather(t, `{"parameters":null,"config":{"url":"https://weather.example"},"enabled":false}`)
	w.must(t, 201, http.MethodPost, skillsPath, made, nil)
	w.must(t, 200, http.MethodPatch, skillPath("weather"), `{"parameters":null,"config":null}`, nil)
	w.must(t, 200, http.MethodPost, skillPath("look")+"/run", `{"input":null}`, nil)
	w.must(t, 201, http.MethodPost, automationsPath, `{"name":"a","skill":"look","input":null,"schedule":{"cron":"@daily"}}`, nil)
	w.must(t, 201, http.MethodPost, "/api/v1/objectives", `{"title":"o"}`, &first)
	w.must(t, 200, http.MethodPut, "/api/v1/objectives/"+first.ID+"/steps", `{"steps":[{"title":"s","inputs":null}]}`, nil)
	for _, then := range []string{`{"skill":"look","task":null,"with":null}`,
		`{"message":{"thread":{"channel":"log","address":"a"},"body":"b"},"task":null,"with":null}`} {
		w.must(t, 201, http.MethodPost, "/api/v1/webhook-sources", `{"name":"n`+ids()[24:]+`","kind":"token","rules":[{"then":`+then+`}]}`, nil)
	}
}

func TestABuiltInSkillByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var code told
		got := w.must(t, 200, http.MethodGet, skillPath("look"), "", &code)
		if code.Kind != "builtin" || code.CreatedAt != nil || code.Config != nil || got.header.Get("ETag") != `"0"` {
			t.Errorf("it is %+v", code)
		}
		w.refused(t, 422, "invalid", http.MethodPost, skillsPath, `{"name":"peek","kind":"builtin"}`)
		if p := w.refused(t, 422, "invalid", http.MethodPost, skillsPath, `{"name":"look","kind":"builtin","description":"Mine."}`); !p.at("body.description") {
			t.Errorf("%+v", p)
		}
		var made told
		got = w.must(t, 201, http.MethodPost, skillsPath, `{"name":"look","kind":"builtin","requiresApproval":true,"enabled":false}`, &made)
		if made.ID != code.ID || !made.RequiresApproval || made.Enabled || made.DisabledBy != "human" || made.Scope != "both" || got.header.Get("Location") != skillPath(code.ID) {
			t.Errorf("with a row it is %+v", made)
		}
		w.refused(t, 409, "taken", http.MethodPost, skillsPath, `{"name":"look","kind":"builtin","serial":true}`)
		w.must(t, 204, http.MethodDelete, skillPath("look"), "", nil)
		w.must(t, 204, http.MethodDelete, skillPath(code.ID), "", nil)
		var again told
		if w.must(t, 200, http.MethodGet, skillPath(code.ID), "", &again); !again.Enabled || again.RequiresApproval || again.ID != code.ID {
			t.Errorf("without it, it is %+v", again)
		}
	})
}

// TestTheEffectOfASkillByHTTP: the effect of a skill is the default of its kind, unless the request
// sets it.
func TestTheEffectOfASkillByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		effect := func(want, method, path, body string) {
			t.Helper()
			status := map[string]int{http.MethodPost: 201, http.MethodPatch: 200, http.MethodGet: 200}[method]
			var s told
			if w.must(t, status, method, path, body, &s); s.Effect != want {
				t.Errorf("%s %s %.60s: its effect is %q, want %s", method, path, body, s.Effect, want)
			}
		}
		const posts = `{"config":{"url":"https://api.example/v1/{town}"}}`
		effect("read", http.MethodPost, skillsPath, weather(t, `{}`))
		effect("read", http.MethodPost, skillsPath, weather(t, `{"name":"head","config":{"url":"https://api.example/","method":"HEAD"}}`))
		effect("write", http.MethodPost, skillsPath, weather(t, `{"name":"writes","effect":"write"}`))
		effect("write", http.MethodPost, skillsPath, weather(t, `{"name":"posts","config":{"url":"https://api.example/"}}`))
		effect("read", http.MethodPost, skillsPath, weather(t, `{"name":"searches","effect":"read","config":{"url":"https://api.example/"}}`))
		effect("write", http.MethodPatch, skillPath("weather"), posts)
		effect("read", http.MethodPatch, skillPath("weather"), `{"effect":"read"}`)
		effect("read", http.MethodPatch, skillPath("weather"), `{"serial":true}`)
		effect("read", http.MethodGet, skillPath("weather"), "")
		effect("write", http.MethodPatch, skillPath("weather"), `{"effect":null}`)
		effect("write", http.MethodGet, skillPath("look"), "")
		// Arguments may not determine the host, so that a GET always reads from the host that the
		// definition names.
		for body, at := range map[string]string{
			weather(t, `{"name":"a","effect":"none"}`):                                                         "body.effect",
			weather(t, `{"name":"a","config":{"url":"https://{town}/","method":"GET"}}`):                       "body.config.url",
			weather(t, `{"name":"a","config":{"url":"https://{town}.example/","method":"GET"}}`):               "body.config.url",
			weather(t, `{"name":"a","config":{"url":"https://api.example{town}/","method":"GET"}}`):            "body.config.url",
			weather(t, `{"name":"a","config":{"url":"https://api.example:{town}/x?y={town}","method":"GET"}}`): "body.config.url",
			`{"name":"look","kind":"builtin","effect":"read"}`:                                                 "body.effect",
		} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, skillsPath, body); !p.at(at) {
				t.Errorf("%s: %+v does not name %s", body, p, at)
			}
		}
	})
}

// TestTheResultsOfASkillByHTTP: results are untrusted unless an admin says otherwise.
func TestTheResultsOfASkillByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		results := func(want, method, path, body string) {
			t.Helper()
			status := map[string]int{http.MethodPost: 201, http.MethodPatch: 200, http.MethodGet: 200}[method]
			var s told
			if w.must(t, status, method, path, body, &s); s.Results != want {
				t.Errorf("%s %s %.60s: its results are %q, want %s", method, path, body, s.Results, want)
			}
		}
		results("trusted", http.MethodPost, skillsPath, weather(t, `{"name":"own","results":"trusted"}`))
		results("untrusted", http.MethodPost, skillsPath, weather(t, `{}`))
		results("trusted", http.MethodPatch, skillPath("weather"), `{"results":"trusted"}`)
		results("trusted", http.MethodPatch, skillPath("weather"), `{"serial":true}`)
		results("trusted", http.MethodGet, skillPath("weather"), "")
		results("untrusted", http.MethodPatch, skillPath("weather"), `{"results":"untrusted"}`)
		results("untrusted", http.MethodGet, skillPath("look"), "")
		for _, body := range []string{weather(t, `{"name":"a","results":"mine"}`), `{"name":"look","kind":"builtin","results":"trusted"}`} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, skillsPath, body); !p.at("body.results") {
				t.Errorf("%s: %+v does not name body.results", body, p)
			}
		}
	})
}

func TestListingSkills(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		want := []string{"look"}
		for i := range 5 {
			name := fmt.Sprintf("s%d", i)
			want = append(want, name)
			w.must(t, 201, http.MethodPost, skillsPath, weather(t, fmt.Sprintf(`{"name":%q,"enabled":%v}`, name, i != 3)), nil)
		}
		for query, want := range map[string][]string{
			"limit=2": want, "limit=1": want, "": want, "kind=builtin": {"look"}, "kind=http&limit=2": want[1:], "kind=mcp": nil,
			"enabled=false": {"s3"}, "enabled=true&kind=http&limit=2": {"s0", "s1", "s2", "s4"}, "scope=both": {"look"}, "scope=external": nil,
		} {
			var names []string
			cursor := ""
			for range 10 {
				var p struct {
					Items      []told
					NextCursor *string
				}
				w.must(t, 200, http.MethodGet, skillsPath+"?"+query+cursor, "", &p)
				for _, s := range p.Items {
					names = append(names, s.Name)
				}
				if p.NextCursor == nil {
					break
				}
				cursor = "&cursor=" + *p.NextCursor
			}
			if !slices.Equal(names, want) {
				t.Errorf("%q lists %q, want %q", query, names, want)
			}
		}
		for _, query := range []string{"kind=magic", "scope=all", "enabled=yes", "limit=0", "limit=201", "cursor=!", "cursor=x", "nope=1"} {
			w.refused(t, 422, "invalid", http.MethodGet, skillsPath+"?"+query, "")
		}
	})
}

func TestSkillsThatAreRefused(t *testing.T) {
	w := onOne(t)
	for change, at := range map[string]string{
		`{"name":"a.b"}`:              "body.name",
		`{"name":"_a"}`:               "body.name",
		`{"name":"` + long(65) + `"}`: "body.name",
		`{"kind":"magic"}`:            "body.kind",
		`{"kind":"lambda"}`:           "body.kind",
		`{"description":null}`:        "body.description",
		`{"description":""}`:          "body.description",
		`{"scope":"all"}`:             "body.scope",
		`{"timeoutSeconds":0}`:        "body.timeoutSeconds",
		`{"timeoutSeconds":901}`:      "body.timeoutSeconds",
		`{"timeoutSeconds":"20"}`:     "body.timeoutSeconds",
		`{"canary":1}`:                "body.canary",
		`{"id":"x"}`:                  "body.id",
		`{"config":null}`:             "body.config",
		`{"config":[]}`:               "body.config",
		`{"config":{"url":"canary"}}`: "body.config.url",
		`{"config":{"url":"https://private.example/canary"}}`:                                                           "body.config.url",
		`{"config":{"url":"https://api.example/{country}"}}`:                                                            "body.config.url",
		`{"config":{"url":"https://api.example/","more":"canary"}}`:                                                     "body.config.more",
		`{"config":{"url":"https://api.example/","headers":{"Host":"canary"}}}`:                                         "body.config.headers.Host",
		`{"config":{"url":"https://api.example/","headers":{"X":"[redacted]"}}}`:                                        "body.config.headers.X",
		`{"config":{"url":"https://api.example/","headers":{"Authorization":"Bearer canary"}}}`:                         "body.config.headers.Authorization",
		`{"config":{"url":"https://api.example/","headers":{"X-Weather-Key":"canary"}}}`:                                "body.config.headers.X-Weather-Key",
		`{"config":{"url":"https://api.example/","headers":{"can ary":"x"}}}`:                                           "body.config.headers",
		`{"parameters":{"type":"string"}}`:                                                                              "body.parameters",
		`{"parameters":"canary"}`:                                                                                       "body.parameters",
		`{"parameters":{"type":"object","properties":{"town":{"type":"canary"}},"required":["town"]}}`:                  "body.parameters.properties.town.type",
		`{"parameters":{"type":"object","properties":{"town":{"$ref":"http://127.0.0.1/canary"}},"required":["town"]}}`: "body.parameters.properties.town.$ref",
		`{"parameters":{"type":"object","required":[]}}`:                                                                "body.config.url",
	} {
		p := w.refused(t, 422, "invalid", http.MethodPost, skillsPath, weather(t, change))
		if !p.at(at) {
			t.Errorf("%.100s: %+v does not name %s", change, p, at)
		}
		for _, e := range p.Errors {
			if strings.Contains(e.Message, "canary") {
				t.Errorf("%s repeats what was refused: %+v", change, e)
			}
		}
	}
	w.must(t, 201, http.MethodPost, skillsPath, weather(t, `{"timeoutSeconds":null}`), nil)
	if p := w.refused(t, 409, "taken", http.MethodPost, skillsPath, weather(t, `{"name":"W-E_ATHER"}`)); !strings.Contains(p.Detail, "skill weather in case, - and _ alone") {
		t.Errorf("%+v", p)
	}
	for body, at := range map[string]string{
		`{"name":"other"}`: "body.name", `{"kind":"http"}`: "body.kind", `{"timeoutSeconds":901}`: "body.timeoutSeconds", `{"description":""}`: "body.description",
		`{"config":{"url":"https://private.example/"}}`: "body.config.url", `{"parameters":{"type":"object"}}`: "body.config.url", `{"canary":1}`: "body.canary",
	} {
		if p := w.refused(t, 422, "invalid", http.MethodPatch, skillPath("weather"), body); !p.at(at) {
			t.Errorf("%s: %+v does not name %s", body, p, at)
		}
	}
	for _, body := range []string{``, `{}`, `{"reason":""}`, `{"reason":"` + long(501) + `"}`, `{"reason":"x","by":"self_healing"}`} {
		w.refused(t, 422, "invalid", http.MethodPost, skillPath("weather")+"/disable", body)
	}
	w.refused(t, 422, "invalid", http.MethodPost, skillPath("weather")+"/enable", `{"by":"x"}`)
	for _, query := range []string{"days=0", "days=91", "days=x"} {
		w.refused(t, 422, "invalid", http.MethodGet, skillPath("weather")+"/health?"+query, "")
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// A plain-text credential is refused. It appears in no response, no activity and no log. Other
// values of headers are shown to admins.
func TestSecretsOfASkillAreNotShown(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const config = `{"config":{"url":"https://api.example/v1/{town}","method":"GET","headers":{"X-Account":"an-account-of-20-chr","X-Crm":{"$secret":"crm"}}}}`
		const shown = `{"headers":{"X-Account":"an-account-of-20-chr","X-Crm":{"$secret":"crm"}},"method":"GET","url":"https://api.example/v1/{town}"}`
		const toMembers = `{"headers":{"X-Account":"[redacted]","X-Crm":{"$secret":"crm"}},"method":"GET","url":"https://api.example/v1/{town}"}`
		answers := []result{
			w.must(t, 201, http.MethodPost, skillsPath, weather(t, config), nil),
			w.must(t, 200, http.MethodGet, skillPath("weather"), "", nil),
			w.must(t, 200, http.MethodPatch, skillPath("weather"), config, nil),
			w.must(t, 200, http.MethodPost, skillPath("weather")+"/disable", `{"reason":"x"}`, nil),
		}
		for i, got := range answers {
			var s told
			if decode(t, got.body, &s); string(s.Config) != shown {
				t.Errorf("answer %d shows %s", i, s.Config)
			}
		}
		for token, want := range map[string]string{admin: shown, member: toMembers} {
			var s told
			if decode(t, w.call(t, http.MethodGet, skillPath("weather"), token, "").body, &s); string(s.Config) != want {
				t.Errorf("%s is shown %s", token, s.Config)
			}
			if listed := w.call(t, http.MethodGet, skillsPath, token, ""); strings.Contains(string(listed.body), "an-account") != (token == admin) {
				t.Errorf("%s is listed %s", token, listed.body)
			}
		}
		for at, bad := range map[string]string{
			"body.config.headers.Authorization": `{"url":"https://api.example/v1/{town}","headers":{"Authorization":"Bearer canary-4711"}}`,
			"body.config.headers.X-Note":        `{"url":"https://api.example/v1/{town}","headers":{"X-Note":"ghp_canary47110123456789canary"}}`,
			"body.config.headers.X-Api-Key":     `{"url":"https://api.example/v1/{town}","headers":{"X-Api-Key":"canary"}}`,
			"body.config.url":                   `{"url":"https://api.example/v1/{town}?api_key=canary-4711"}`,
		} {
			for method, path := range map[string]string{http.MethodPost: skillsPath, http.MethodPatch: skillPath("weather")} {
				body := `{"config":` + bad + `}`
				if method == http.MethodPost {
					body = strings.Replace(weather(t, body), `"weather"`, `"climate"`, 1)
				}
				if p := w.refused(t, 422, "invalid", method, path, body); !p.at(at) || !strings.Contains(fmt.Sprint(p.Errors), `use {"$secret": name}`) {
					t.Errorf("%s %s: %+v", method, bad, p)
				}
			}
		}
		answers = append(answers, w.must(t, 200, http.MethodGet, skillsPath, "", nil), w.must(t, 200, http.MethodGet, "/api/v1/activity", "", nil))
		for i, got := range answers {
			if strings.Contains(string(got.body), "canary") {
				t.Errorf("answer %d shows a secret: %s", i, got.body)
			}
		}
		if strings.Contains(w.logs.String(), "canary") {
			t.Error("the log shows a secret")
		}
		// A redacted value cannot be written back by mistake.
		if p := w.refused(t, 422, "invalid", http.MethodPatch, skillPath("weather"), `{"config":`+toMembers+`}`); !p.at("body.config.headers.X-Account") {
			t.Errorf("%+v", p)
		}
		d, err := w.Registry.Get(t.Context(), w.Workspace, "weather")
		if err != nil || strings.Contains(string(d.Config), "canary") || !strings.Contains(string(d.Config), "an-account") {
			t.Errorf("kept is %s (%v)", d.Config, err)
		}
	})
}

func TestEachChangeOfASkillIsWrittenDown(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.must(t, 201, http.MethodPost, skillsPath, weather(t, `{}`), nil)
		w.refused(t, 409, "taken", http.MethodPost, skillsPath, weather(t, `{}`))
		w.must(t, 200, http.MethodPatch, skillPath("weather"), `{"serial":true,"description":"More."}`, nil)
		w.must(t, 200, http.MethodPost, skillPath("weather")+"/disable", `{"reason":"it rains"}`, nil)
		w.must(t, 200, http.MethodPost, skillPath("weather")+"/disable", `{"reason":"still"}`, nil)
		w.must(t, 200, http.MethodPost, skillPath("weather")+"/enable", `{"reason":"it is dry"}`, nil)
		w.must(t, 204, http.MethodDelete, skillPath("weather"), "", nil)
		w.must(t, 204, http.MethodDelete, skillPath("look"), "", nil)
		page, err := w.Activity.List(t.Context(), w.Workspace, activity.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		var log []string
		for _, e := range slices.Backward(page.Items) {
			var input struct {
				Skill, By, Reason string
				Fields            []string
				Changed           bool
			}
			decode(t, e.Input, &input)
			log = append(log, strings.TrimSpace(fmt.Sprint(e.Skill, " ", input.Changed, " ", input.Skill, " ", input.Fields, " ", input.Reason)))
			if input.By != "local:owner" || e.Agent != activity.Operator || e.Surface != trace.Operate || e.Trace == "" {
				t.Errorf("%s: %+v", e.Skill, e)
			}
		}
		if want := []string{
			"skill.create true weather [config description parameters]",
			"skill.update true weather [description serial]",
			"skill.disable true weather [] it rains",
			"skill.disable false weather [] still",
			"skill.enable true weather [] it is dry",
			"skill.delete true weather []",
			"skill.delete false look []",
		}; !slices.Equal(log, want) {
			t.Errorf("written down is\n%s", strings.Join(log, "\n"))
		}
	})
}

func TestHealthOfASkill(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var none map[string]any
		w.must(t, 200, http.MethodGet, skillPath("look")+"/health", "", &none)
		if none["calls"] != 0.0 || none["days"] != 7.0 || none["p50Ms"] != nil || none["name"] != "look" {
			t.Errorf("without calls: %v", none)
		}
		for i, status := range []activity.Status{activity.Success, activity.Error, activity.Error} {
			e := activity.Entry{Agent: "a", Surface: trace.Heartbeat, Skill: "look", Status: status, Duration: time.Duration(i+1) * time.Second, Trace: w.Traces.New(trace.Heartbeat)}
			if status == activity.Error {
				e.Output = skill.ErrorOutput(skill.Theirs)
			}
			if err := w.Activity.Write(t.Context(), w.Workspace, e); err != nil {
				t.Fatal(err)
			}
		}
		var h struct {
			Calls, Successes, Failures, ConsecutiveFailures, P50Ms, P95Ms int
			LastErrorClass                                                string
			LastErrorAt, LastCallAt                                       *time.Time
		}
		w.must(t, 200, http.MethodGet, skillPath("look")+"/health?days=1", "", &h)
		if h.Calls != 3 || h.Successes != 1 || h.Failures != 2 || h.ConsecutiveFailures != 2 || h.P50Ms != 2000 || h.P95Ms != 3000 || h.LastErrorClass != "theirs" || h.LastErrorAt == nil {
			t.Errorf("got %+v", h)
		}
	})
}

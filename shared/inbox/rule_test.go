package inbox_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

func rules(t testing.TB, text string) (out []inbox.Rule) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

const issue = `{"action":"opened","issue":{"number":7,"title":"It \"burns\"","labels":[{"name":"bug"},{"name":"ui"}],"body":null,"locked":false},
  "score":1.50,"big":9007199254740993,"tags":["a","b",3]}`

func delivery() inbox.Delivery {
	return inbox.Delivery{
		ID: "0191f6ac-0000-7000-8000-000000000001", DeliveryID: "d1", Source: "gh", Event: "issues.opened", Body: []byte(issue),
		Headers: map[string]string{"content-type": "application/json", "x-github-event": "issues"},
	}
}

// TestConditions: each operator, where it holds and where it does not.
func TestConditions(t *testing.T) {
	for condition, want := range map[string]bool{
		`{"path":"body.issue.number","op":"eq","value":7}`:                       true,
		`{"path":"body.issue.number","op":"eq","value":7.0}`:                     true,
		`{"path":"body.issue.number","op":"eq","value":"7"}`:                     false,
		`{"path":"body.score","op":"eq","value":1.5}`:                            true,
		`{"path":"body.big","op":"eq","value":9007199254740993}`:                 true,
		`{"path":"body.big","op":"eq","value":9007199254740992}`:                 false,
		`{"path":"body.issue.locked","op":"eq","value":false}`:                   true,
		`{"path":"body.issue.body","op":"eq","value":null}`:                      true,
		`{"path":"body.issue.none","op":"eq","value":null}`:                      false,
		`{"path":"body.issue.none","op":"ne","value":1}`:                         true,
		`{"path":"body.issue.number","op":"ne","value":7}`:                       false,
		`{"path":"body.issue.number","op":"ne","value":8}`:                       true,
		`{"path":"body.action","op":"in","value":["opened","closed"]}`:           true,
		`{"path":"body.action","op":"in","value":["closed"]}`:                    false,
		`{"path":"body.none","op":"in","value":["closed"]}`:                      false,
		`{"path":"body.issue.title","op":"contains","value":"burn"}`:             true,
		`{"path":"body.issue.title","op":"contains","value":"BURN"}`:             false,
		`{"path":"body.tags","op":"contains","value":3}`:                         true,
		`{"path":"body.tags","op":"contains","value":"c"}`:                       false,
		`{"path":"body.issue.labels.1.name","op":"eq","value":"ui"}`:             true,
		`{"path":"body.issue.labels.2.name","op":"exists"}`:                      false,
		`{"path":"body.issue.labels.-1.name","op":"exists"}`:                     false,
		`{"path":"body.issue.labels.0","op":"exists"}`:                           true,
		`{"path":"body.issue.body","op":"exists","value":true}`:                  true,
		`{"path":"body.issue.none","op":"exists","value":false}`:                 true,
		`{"path":"body.issue.body","op":"exists","value":null}`:                  true,
		`{"path":"body.issue.none","op":"exists","value":null}`:                  false,
		`{"path":"body.issue.number","op":"gt","value":6.9}`:                     true,
		`{"path":"body.issue.number","op":"gt","value":7}`:                       false,
		`{"path":"body.issue.number","op":"lt","value":8}`:                       true,
		`{"path":"body.issue.number","op":"lt","value":"8"}`:                     false,
		`{"path":"body.action","op":"lt","value":"p"}`:                           true,
		`{"path":"body.action","op":"matches","value":"^(opened|reopened)$"}`:    true,
		`{"path":"body.action","op":"matches","value":"^open$"}`:                 false,
		`{"path":"body.issue.number","op":"matches","value":"^7$"}`:              true,
		`{"path":"headers.X-GitHub-Event","op":"eq","value":"issues"}`:           true,
		`{"path":"headers.x-github-event","op":"eq","value":"push"}`:             false,
		`{"path":"event","op":"eq","value":"issues.opened"}`:                     true,
		`{"path":"source","op":"eq","value":"gh"}`:                               true,
		`{"path":"id","op":"eq","value":"d1"}`:                                   true,
		`{"path":"body.issue.title.x","op":"exists"}`:                            false,
		`{"path":"body.big","op":"gt","value":1e400}`:                            false,
		`{"path":"body","op":"exists"}`:                                          true,
		`{"path":"headers","op":"exists"}`:                                       true,
		`{"path":"body.issue.labels","op":"contains","value":{"name":"bug"}}`:    true,
		`{"path":"body.issue.labels.0","op":"eq","value":{"name":"bug"}}`:        true,
		`{"path":"body.issue.labels.0","op":"in","value":[{"name":"bug"},null]}`: true,
	} {
		_, ok, err := inbox.PlanFor(rules(t, `[{"when":[`+condition+`],"then":{"skill":"x"}}]`), delivery())
		if err != nil || ok != want {
			t.Errorf("%s: %t, %v", condition, ok, err)
		}
	}
}

// TestEventFilters: * stands for any text.
func TestEventFilters(t *testing.T) {
	for filter, want := range map[string]bool{
		"": true, "*": true, "issues.opened": true, "issues.*": true, "*.opened": true, "iss*.op*ed": true, "**": true, "*s*s*": true,
		"issues": false, "issues.closed": false, "push*": false, "*x*": false, "issues.opened*x": false, "*issues.openedd": false, "iss*sues.opened": false,
	} {
		raw, _ := json.Marshal(filter)
		_, ok, err := inbox.PlanFor(rules(t, `[{"event":`+string(raw)+`,"then":{"skill":"x"}}]`), delivery())
		if err != nil || ok != want {
			t.Errorf("%q: %t, %v", filter, ok, err)
		}
	}
}

// TestTheFirstRuleThatMatchesCounts, and without one there is nothing to do.
func TestTheFirstRuleThatMatchesCounts(t *testing.T) {
	p, ok, err := inbox.PlanFor(rules(t, `[{"event":"push","then":{"skill":"a"}},{"event":"issues.*","then":{"skill":"b"}},{"then":{"skill":"c"}}]`), delivery())
	if err != nil || !ok || p.Skill != "b" {
		t.Errorf("%+v, %t, %v", p, ok, err)
	}
	if _, ok, err := inbox.PlanFor(nil, delivery()); ok || err != nil {
		t.Errorf("without rules: %t, %v", ok, err)
	}
}

// TestTemplates are filled in with what the delivery says.
func TestTemplates(t *testing.T) {
	for with, want := range map[string]string{
		`{"a":"{{body.issue.number}}"}`:                          `{"a":7}`,
		`{"a":"#{{body.issue.number}}: {{ body.issue.title }}"}`: `{"a":"#7: It \"burns\""}`,
		`{"a":"{{body.issue.labels}}"}`:                          `{"a":[{"name":"bug"},{"name":"ui"}]}`,
		`{"a":"x{{body.issue.labels.0}}"}`:                       `{"a":"x{\"name\":\"bug\"}"}`,
		`{"a":"{{body.none}}","b":"-{{body.none}}-"}`:            `{"a":null,"b":"--"}`,
		`{"a":["{{event}}",{"b":"{{headers.x-github-event}}"}]}`: `{"a":["issues.opened",{"b":"issues"}]}`,
		`{"{{event}}":1}`:                                        `{"{{event}}":1}`,
		`{"a":"no template","n":1.50}`:                           `{"a":"no template","n":1.50}`,
	} {
		p, ok, err := inbox.PlanFor(rules(t, `[{"then":{"skill":"x","with":`+with+`}}]`), delivery())
		if err != nil || !ok {
			t.Errorf("%s: %t, %v", with, ok, err)
			continue
		}
		got, err := p.Input(nil)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", with, got, err)
		}
		if outside := strings.Contains(strings.ReplaceAll(with, `"{{event}}":`, ""), "{{"); p.Outside != outside {
			t.Errorf("%s: outside is %t", with, p.Outside)
		}
	}
}

// TestATemplateIsNotFilledInTwice: what comes from outside is never a template.
func TestATemplateIsNotFilledInTwice(t *testing.T) {
	d := delivery()
	d.Body = []byte(`{"a":"{{headers.x-github-event}}"}`)
	p, _, err := inbox.PlanFor(rules(t, `[{"then":{"skill":"x","with":{"a":"{{body.a}}","b":"<{{body.a}}>"}}}]`), d)
	if got, _ := p.Input(nil); err != nil || string(got) != `{"a":"{{headers.x-github-event}}","b":"\u003c{{headers.x-github-event}}\u003e"}` {
		t.Errorf("%s, %v", got, err)
	}
}

// TestTemplatesAreBounded: a delivery can't make them larger than 64 KiB.
func TestTemplatesAreBounded(t *testing.T) {
	d := delivery()
	d.Body = []byte(`{"a":"` + strings.Repeat("x", 20<<10) + `"}`)
	for _, with := range []string{`{"a":"{{body.a}}{{body.a}}{{body.a}}{{body.a}}"}`, `{"a":"{{body.a}}","b":"{{body.a}}","c":"{{body}}","d":"{{body}}"}`} {
		if _, ok, err := inbox.PlanFor(rules(t, `[{"then":{"skill":"x","with":`+with+`}}]`), d); !ok || err == nil {
			t.Errorf("%s: %t, %v", with, ok, err)
		}
	}
	if _, _, err := inbox.PlanFor(rules(t, `[{"then":{"skill":"x","with":{"a":"{{body.a}}{{body.a}}"}}}]`), d); err != nil {
		t.Error(err)
	}
}

// TestALargeDeliveryIsNotWrittenAgainAndAgain: once the templates have become too large, no other is filled in.
func TestALargeDeliveryIsNotWrittenAgainAndAgain(t *testing.T) {
	d := delivery()
	d.Body = []byte(`{"a":[` + strings.Repeat(`"0123456789",`, 10_000) + `1]}`)
	work := func(with string) float64 {
		r := rules(t, `[{"then":{"skill":"x","with":`+with+`}}]`)
		return testing.AllocsPerRun(1, func() {
			if _, _, err := inbox.PlanFor(r, d); err == nil {
				t.Errorf("%.80s is not too large", with)
			}
		})
	}
	once := work(`{"a":"{{body}}"}`)
	for _, many := range []string{
		`{"a":["{{body}}"` + strings.Repeat(`,"{{body}}"`, 500) + `]}`,
		`{"a":"` + strings.Repeat(`{{body}} `, 500) + `"}`,
	} {
		if n := work(many); n > 2*once {
			t.Errorf("%.40s…: %.0f allocations, %.0f for one template", many, n, once)
		}
	}
}

// TestMessages: thread and text are templates, and must not become empty.
func TestMessages(t *testing.T) {
	const rule = `[{"then":{"message":{"thread":{"channel":"github","address":"acme/app#{{body.issue.number}}"},"body":"New: {{body.issue.title}}"}}}]`
	p, ok, err := inbox.PlanFor(rules(t, rule), delivery())
	if err != nil || !ok || p.Channel != "github" || p.Address != "acme/app#7" || p.Text != `New: It "burns"` || !p.Outside {
		t.Errorf("%+v, %t, %v", p, ok, err)
	}
	for _, rule := range []string{
		`[{"then":{"message":{"thread":{"channel":"github","address":"{{body.none}}"},"body":"x"}}}]`,
		`[{"then":{"message":{"thread":{"channel":"github","address":"x"},"body":" {{body.none}} "}}}]`,
	} {
		if _, ok, err := inbox.PlanFor(rules(t, rule), delivery()); !ok || err == nil {
			t.Errorf("%s: %t, %v", rule, ok, err)
		}
	}
}

// TestAnAppIsNotToldItsOwnWords: Slack tells an app what it has said itself. An answer to that would be told again,
// and so on without end. Other bots are heard, and other actions may be begun.
func TestAnAppIsNotToldItsOwnWords(t *testing.T) {
	const says = `[{"then":{"message":{"thread":{"channel":"slack","address":"{{body.event.channel}}"},"body":"{{body.event.text}}"}}}]`
	for event, want := range map[string]bool{
		`{"type":"message","channel":"C7","text":"Hi.","user":"U1"}`:                                           true,
		`{"type":"message","channel":"C7","text":"Hi.","bot_id":"B1","app_id":"A1"}`:                           false,
		`{"type":"message","channel":"C7","text":"Hi.","bot_id":"B1","bot_profile":{"id":"B1","app_id":"A1"}}`: false,
		`{"type":"message","channel":"C7","text":"Hi.","bot_id":"B2","app_id":"A2"}`:                           true,
	} {
		d := delivery()
		d.Body = []byte(`{"type":"event_callback","api_app_id":"A1","event":` + event + `}`)
		if _, ok, err := inbox.PlanFor(rules(t, says), d); ok != want || err != nil {
			t.Errorf("%s: %t, %v", event, ok, err)
		}
		if _, ok, err := inbox.PlanFor(rules(t, `[{"then":{"skill":"count"}}]`), d); !ok || err != nil {
			t.Errorf("%s, for a skill: %t, %v", event, ok, err)
		}
	}
}

// TestTasks: a rule that creates a task calls the skill for it, whose arguments are templates.
func TestTasks(t *testing.T) {
	p, ok, err := inbox.PlanFor(rules(t, `[{"then":{"task":{"title":"Look","priority":8},"with":{"title":"Look at {{body.issue.title}}"}}}]`), delivery())
	input, wrong := p.Input(nil)
	if err != nil || wrong != nil || !ok || p.Skill != "create_task" || !p.Outside || string(input) != `{"priority":8,"title":"Look at It \"burns\""}` {
		t.Errorf("%+v, %s, %t, %v", p, input, ok, err)
	}
}

// TestRulesAreChecked when a source is stored.
func TestRulesAreChecked(t *testing.T) {
	costly := func(expressions ...string) string {
		for i, e := range expressions {
			expressions[i] = `{"then":{"skill":"a"},"when":[{"path":"body","op":"matches","value":"` + e + `"}]}`
		}
		return "[" + strings.Join(expressions, ",") + "]"
	}
	onEach(t, func(t *testing.T, w *world) {
		for text, field := range map[string]string{
			`[{"then":{}}]`: "rules[0].then",
			`[{"then":{"skill":"a","automation":"b"}}]`:                                                           "rules[0].then",
			`[{"then":{"skill":"a","task":{"title":"b"}}}]`:                                                       "rules[0].then",
			`[{"then":{"task":["b"]}}]`:                                                                           "rules[0].then.task",
			`[{"then":{"task":{"title":"{{nothing}}"}}}]`:                                                         "rules[0].then.task",
			`[{"then":{"task":{"title":"a"},"with":[]}}]`:                                                         "rules[0].then.with",
			`[{"then":{"skill":"a","with":[]}}]`:                                                                  "rules[0].then.with",
			`[{"then":{"skill":"a","with":{"a":"{{nothing}}"}}}]`:                                                 "rules[0].then.with",
			`[{"then":{"skill":"a","with":{"a":"{{body.a"}}}]`:                                                    "rules[0].then.with",
			`[{"then":{"skill":"a"},"when":[{"path":"x","op":"eq","value":1}]}]`:                                  "rules[0].when[0].path",
			`[{"then":{"skill":"a"},"when":[{"path":"body..a","op":"eq","value":1}]}]`:                            "rules[0].when[0].path",
			`[{"then":{"skill":"a"},"when":[{"path":"body","op":"like","value":1}]}]`:                             "rules[0].when[0].op",
			`[{"then":{"skill":"a"},"when":[{"path":"body","op":"matches","value":"("}]}]`:                        "rules[0].when[0].value",
			`[{"then":{"skill":"a"},"when":[{"path":"body","op":"in","value":"a"}]}]`:                             "rules[0].when[0].value",
			`[{"then":{"skill":"a"},"when":[{"path":"body","op":"eq"}]}]`:                                         "rules[0].when[0].value",
			`[{"then":{"skill":"a"},"when":[{"path":"body","op":"gt","value":true}]}]`:                            "rules[0].when[0].value",
			`[{"then":{"message":{"thread":{"channel":"","address":"a"},"body":"b"}}}]`:                           "rules[0].then.message.thread.channel",
			`[{"then":{"message":{"thread":{"channel":"a","address":""},"body":"b"}}}]`:                           "rules[0].then.message.thread.address",
			`[{"then":{"message":{"thread":{"channel":"a","address":"a"},"body":""}}}]`:                           "rules[0].then.message.body",
			`[{"then":{"message":{"thread":{"channel":"http","address":"https://{{body.host}}/x"},"body":"b"}}}]`: "rules[0].then.message.thread.address",
			`[{"event":"` + strings.Repeat("a", 201) + `","then":{"skill":"a"}}]`:                                 "rules[0].event",
			"[" + strings.Repeat(`{"then":{"skill":"a"}},`, 50) + `{"then":{"skill":"a"}}]`:                       "rules",

			// what takes long to match, alone and together
			costly("." + strings.Repeat(".{0,900}", 6)):         "rules[0].when[0].value",
			costly(slices.Repeat([]string{".{0,900}x"}, 20)...): "rules",
		} {
			_, err := w.s.Seal(t.Context(), w.Workspace, inbox.Source{Name: "a", Kind: inbox.GitHub, Rules: rules(t, text)}, secret.NewValue("a secret of the sender"))
			wrong, is := errors.AsType[*problem.InvalidError](err)
			if !is || wrong.Fields[0].Field != field {
				t.Errorf("%.80s: %v", text, err)
			}
		}
		optional := rules(t, `[{"then":{"skill":"a"},"when":[{"path":"body","op":"exists","value":null}]}]`)
		if _, err := w.s.Seal(t.Context(), w.Workspace, inbox.Source{Name: "a", Kind: inbox.GitHub, Rules: optional}, secret.NewValue("a secret of the sender")); err != nil {
			t.Errorf("exists with null: %v", err)
		}
	})
}

// TestHeadersThatAreNotKept can't be asked for: a rule about one would never match. An id may stand
// in one, but not in the signature.
func TestHeadersThatAreNotKept(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		seal := func(n inbox.Source) error {
			_, err := w.s.Seal(t.Context(), w.Workspace, n, secret.NewValue("a secret of the sender"))
			return err
		}
		for text, field := range map[string]string{
			`[{"then":{"skill":"a"},"when":[{"path":"headers.X-Api-Key","op":"eq","value":"x"}]}]`:                               "rules[0].when[0].path",
			`[{"then":{"skill":"a"},"when":[{"path":"headers.x-mine","op":"exists"}]}]`:                                          "rules[0].when[0].path",
			`[{"then":{"skill":"b"}},{"then":{"skill":"a","with":{"a":["{{headers.authorization}}"]}}}]`:                         "rules[1].then.with",
			`[{"then":{"message":{"thread":{"channel":"a","address":"{{headers.x-mine}}"},"body":"b"}}}]`:                        "rules[0].then.message.thread.address",
			`[{"then":{"message":{"thread":{"channel":"a","address":"b"},"body":"{{body}} {{ headers.Cookie }}"}}}]`:             "rules[0].then.message.body",
			`[{"then":{"skill":"a","with":{"a":"{{headers.x-id}}"}},"when":[{"path":"headers.x-id","op":"exists"}]}]`:            "",
			`[{"then":{"skill":"a","with":{"a":"{{body.token}}"}},"when":[{"path":"body.headers.cookie","op":"eq","value":1}]}]`: "",
		} {
			err := seal(inbox.Source{Name: "a", Kind: inbox.HMAC, Header: "X-Mine", Rules: rules(t, text)})
			wrong, is := errors.AsType[*problem.InvalidError](err)
			if field == "" && err != nil || field != "" && (!is || wrong.Fields[0].Field != field) {
				t.Errorf("%s: %v", text, err)
			}
		}
		for path, legal := range map[string]bool{
			"headers.idempotency-key": true, "body.id": true, "body": true, "headers.X-Mine": false, "headers.x-mine": false, "headers": false, "event": false, "id": false,
		} {
			err := seal(inbox.Source{Name: "a", Kind: inbox.HMAC, Header: "X-Mine", IDPath: path})
			wrong, is := errors.AsType[*problem.InvalidError](err)
			if legal && err != nil || !legal && (!is || wrong.Fields[0].Field != "idPath") {
				t.Errorf("%s: %v", path, err)
			}
		}
		if err := seal(inbox.Source{Name: "a", Kind: inbox.Token, IDPath: "headers.authorization"}); err == nil {
			t.Error("the token itself may be an id")
		}
	})
}

// TestWhatNoDatabaseTakes from outside is repaired, and a number that none takes is refused.
func TestWhatNoDatabaseTakes(t *testing.T) {
	const mark = "\uFFFD"
	d := delivery()
	d.Body = []byte(`{"a":{"b\u0000":["c\u0000",1.5]},"t":"x\u0000y","n":1e200000,"m":[{"n":-1E+400}],"s":1e-200000,"l":0.` + strings.Repeat("1", 20_000) + `}`)
	plan := func(with string) (inbox.Plan, error) {
		p, _, err := inbox.PlanFor(rules(t, `[{"then":{"skill":"x","with":`+with+`}}]`), d)
		return p, err
	}
	p, err := plan(`{"a":"{{body.a}}","t":"{{body.t}}","u":"-{{body.t}}-","v":"-{{body.a}}-"}`)
	got, _ := p.Input(nil)
	want := `{"a":{"b` + mark + `":["c` + mark + `",1.5]},"t":"x` + mark + `y","u":"-x` + mark + `y-","v":"-{\"b` + mark + `\":[\"c` + mark + `\",1.5]}-"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, with := range []string{`{"a":"{{body.n}}"}`, `{"a":["{{body.m}}"]}`, `{"a":"{{body.s}}"}`, `{"a":"{{body.l}}"}`} {
		if _, err := plan(with); err == nil || !strings.Contains(err.Error(), "number") {
			t.Errorf("%s: %v", with, err)
		}
	}
	d.Headers = map[string]string{"content-type": "application/x-www-form-urlencoded"}
	d.Body = []byte("a=x%ffy%00z&%fe=1")
	p, err = plan(`{"a":"{{body.a}}","all":"{{body}}"}`)
	if got, _ := p.Input(nil); err != nil || string(got) != `{"a":"x`+mark+`y`+mark+`z","all":{"a":"x`+mark+`y`+mark+`z","`+mark+`":"1"}}` {
		t.Errorf("a form: %s, %v", got, err)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(`[{"event":"issues.*","when":[{"path":"body.a.0","op":"matches","value":"^x"}],"then":{"skill":"x","with":{"a":"{{body.a}} {{event}}"}}}]`, "application/json", []byte(`{"a":["xyz"]}`))
	f.Add(`[{"then":{"message":{"thread":{"channel":"a","address":"{{body.b}}"},"body":"{{body}}"}}}]`, "application/x-www-form-urlencoded", []byte(`b=c`))
	f.Fuzz(func(t *testing.T, text, media string, body []byte) {
		var all []inbox.Rule
		if json.Unmarshal([]byte(text), &all) != nil {
			return
		}
		p, ok, err := inbox.PlanFor(all, inbox.Delivery{Body: body, Event: "issues.opened", Headers: map[string]string{"content-type": media}})
		if err != nil || !ok {
			return
		}
		if raw, err := p.Input(nil); err == nil && len(raw) > 1<<20 || len(p.Text) > 64<<10 {
			t.Errorf("%d bytes", len(raw))
		}
	})
}

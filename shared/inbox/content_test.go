package inbox_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/inbox"
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// TestWhatRequestsSay checks the id and the event of each kind, and of CloudEvents.
func TestWhatRequestsSay(t *testing.T) {
	const digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}
	for _, c := range []struct {
		name      string
		source    inbox.Source
		header    http.Header
		body      string
		id, event string
	}{
		{"github", inbox.Source{Kind: inbox.GitHub}, header("X-GitHub-Delivery", "72d3162e", "X-GitHub-Event", "issues"), `{"action":"opened"}`, "72d3162e", "issues.opened"},
		{"github without an action", inbox.Source{Kind: inbox.GitHub}, header("X-GitHub-Delivery", "72d3162e", "X-GitHub-Event", "push"), `{}`, "72d3162e", "push"},
		{"github as a form", inbox.Source{Kind: inbox.GitHub}, header("X-GitHub-Delivery", "a", "X-GitHub-Event", "issues", "Content-Type", "application/x-www-form-urlencoded"),
			"payload=%7B%22action%22%3A%22closed%22%7D", "a", "issues.closed"},
		{"stripe", inbox.Source{Kind: inbox.Stripe}, header(), `{"id":"evt_1","type":"invoice.paid"}`, "evt_1", "invoice.paid"},
		{"slack", inbox.Source{Kind: inbox.Slack}, header(), `{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"}}`, "Ev1", "app_mention"},
		{"slack command", inbox.Source{Kind: inbox.Slack}, header("Content-Type", "application/x-www-form-urlencoded"), slackBody,
			"398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c", "/webhook-collect"},
		{"standard", inbox.Source{Kind: inbox.Standard}, header("Webhook-Id", "msg_1"), `{"type":"user.created"}`, "msg_1", "user.created"},
		{"standard of Svix", inbox.Source{Kind: inbox.Standard}, header("Svix-Id", "msg_1", "Svix-Signature", "v1,x"), `{"type":"user.created"}`,
			"msg_1", "user.created"},
		{"hmac", inbox.Source{Kind: inbox.HMAC}, header(), `{}`, digest, ""},
		{"hmac with a path", inbox.Source{Kind: inbox.HMAC, IDPath: "body.order.id"}, header(), `{"order":{"id":7},"event":"order.paid"}`, "7", "order.paid"},
		{"hmac with a header", inbox.Source{Kind: inbox.HMAC, IDPath: "headers.x-request-id"}, header("X-Request-Id", "r1"), `{}`, "r1", ""},
		{"a path to nothing", inbox.Source{Kind: inbox.Token, IDPath: "body.id"}, header(), `{}`, digest, ""},
		{"a path to an object", inbox.Source{Kind: inbox.Token, IDPath: "body.id"}, header(), `{"id":{}}`, "sha256:9b5f4f97a7b4ad1d9a2ba6ed9d2e4fb0", ""},
		{"text", inbox.Source{Kind: inbox.Token}, header("Content-Type", "text/plain"), "disk full", "sha256:", ""},
		{"JSON as a form, as curl sends it", inbox.Source{Kind: inbox.Token, IDPath: "body.order.id"}, header("Content-Type", "application/x-www-form-urlencoded"),
			` {"event": "order.paid", "order": {"id": 7, "rate": "5%"}}`, "7", "order.paid"},
		{"a form that begins like JSON", inbox.Source{Kind: inbox.Token, IDPath: "body.id"}, header("Content-Type", "application/x-www-form-urlencoded"),
			"[a]=1&id=8&event=order.paid", "8", "order.paid"},
		{"structured", inbox.Source{Kind: inbox.Token}, header("Content-Type", "application/cloudevents+json; charset=utf-8"),
			`{"specversion":"1.0","id":"7","source":"/shop","type":"com.example.paid","data":{"n":1}}`, "/shop 7", "com.example.paid"},
		{"binary", inbox.Source{Kind: inbox.HMAC}, header("Ce-Specversion", "1.0", "Ce-Id", "7", "Ce-Source", "/shop", "Ce-Type", "com.example.paid", "Content-Type", "application/json"),
			`{"n":1}`, "/shop 7", "com.example.paid"},
		{"a path before CloudEvents", inbox.Source{Kind: inbox.Token, IDPath: "body.data.n"}, header("Content-Type", "application/cloudevents+json"),
			`{"specversion":"1.0","id":"7","source":"/shop","type":"com.example.paid","data":{"n":1}}`, "1", "com.example.paid"},
		{"a long id", inbox.Source{Kind: inbox.GitHub}, header("X-GitHub-Delivery", strings.Repeat("a", 300)), `{}`, "sha256:", ""},
		{"an id with a NUL", inbox.Source{Kind: inbox.Stripe}, header(), `{"id":"a\u0000b","type":"c\u0000d"}`, "sha256:", ""},
		{"an empty body", inbox.Source{Kind: inbox.Token}, header("Content-Type", "application/json"), "", "sha256:e3b0c44298fc1c14", ""},
	} {
		got, err := c.source.Read(inbox.Request{Header: c.header, Body: []byte(c.body)})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if same := got.ID == c.id || strings.HasPrefix(c.id, "sha256:") && c.id != digest && strings.HasPrefix(got.ID, "sha256:") && len(got.ID) == 71; !same {
			t.Errorf("%s: the id is %q, not %q", c.name, got.ID, c.id)
		}
		if got.Event != c.event {
			t.Errorf("%s: the event is %q, not %q", c.name, got.Event, c.event)
		}
	}
}

// TestWhatCanNotBeTaken: the errors have our own texts.
func TestWhatCanNotBeTaken(t *testing.T) {
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	for _, c := range []struct {
		header      http.Header
		body        string
		why         string
		unsupported bool
	}{
		{header("Content-Type", "application/json"), "{", "is not JSON", false},
		{header("Content-Type", "application/json"), "{} {}", "is not JSON", false},
		{header("Content-Type", "application/vnd.x+json"), "nothing", "is not JSON", false},
		{header(), deep, "more than 64 levels", false},
		{header("Content-Type", "text/plain"), strings.Repeat(`{"a":`, 1000), "more than 64 levels", false},
		{header("Content-Type", "application/x-www-form-urlencoded"), "payload=" + deep, "more than 64 levels", false},
		{header("Content-Type", "application/x-www-form-urlencoded"), deep, "more than 64 levels", false},
		{header("Content-Type", "application/x-www-form-urlencoded"), "a=%zz", "is not a form", false},
		{header("Content-Type", "application/x-www-form-urlencoded"), strings.Repeat("a=b&", 1001), "is not a form", false},
		{header("Content-Type", "image/png"), "\x89PNG\xff", "is not UTF-8", true},
		{header("Content-Type", "application/cloudevents-batch+json"), "[]", "one by one", true},
		{header("Content-Type", "application/cloudevents+json"), `{"specversion":"0.3","id":"7","source":"/","type":"a"}`, "specversion", false},
		{header("Content-Type", "application/cloudevents+json"), `{"specversion":"1.0","id":"","source":"/","type":"a"}`, "lacks id", false},
		{header("Ce-Specversion", "1.0", "Ce-Id", "7"), `{}`, "lacks id", false},
	} {
		_, err := inbox.Source{Kind: inbox.Token}.Read(inbox.Request{Header: c.header, Body: []byte(c.body)})
		wrong, is := errors.AsType[*inbox.ContentError](err)
		if !is || !strings.Contains(wrong.Why, c.why) || wrong.Unsupported != c.unsupported {
			t.Errorf("%.40s: %v", c.body, err)
		}
	}
	nested := strings.Repeat("[", 64) + `"[[[[\"[["` + strings.Repeat("]", 64)
	if _, err := (inbox.Source{Kind: inbox.Token}).Read(inbox.Request{Header: header(), Body: []byte(nested)}); err != nil {
		t.Errorf("64 levels and brackets in a text: %v", err)
	}
}

// TestCredentialsAreNotKept: headers that may hold a credential are not stored.
func TestCredentialsAreNotKept(t *testing.T) {
	h := header("Authorization", "Bearer x", "Cookie", "x", "X-Hub-Signature-256", "x", "Stripe-Signature", "x", "X-Api-Key", "x", "X-Gitlab-Token", "x",
		"X-Mine", "x", "X-GitHub-Event", "push", "Content-Type", "application/json", "X-Long", strings.Repeat("x", 2000))
	got, err := inbox.Source{Kind: inbox.Token, Header: "X-Mine"}.Read(inbox.Request{Header: h, Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Headers) != 2 || got.Headers["x-github-event"] != "push" || got.Headers["content-type"] == "" {
		t.Errorf("kept: %v", got.Headers)
	}
}

// TestABodyIsReadTheSameLater: what says how it is decoded is stored, or has no say at receipt either.
func TestABodyIsReadTheSameLater(t *testing.T) {
	rules := []inbox.Rule{{Then: inbox.Action{Skill: "a", With: json.RawMessage(`{"n":"{{body.n}}"}`)}}}
	for media, want := range map[string]string{
		"application/x-www-form-urlencoded; x=" + strings.Repeat("y", 2000): "42",
		"application/x-www-form-urlencoded; x=\"\xff\"":                     "42",
		"application/" + strings.Repeat("y", 2000) + "+json":                "",
	} {
		body := []byte("n=42&event=paid")
		got, err := inbox.Source{Kind: inbox.Token}.Read(inbox.Request{Header: header("Content-Type", media), Body: body})
		if err != nil || (got.Event == "paid") != (want != "") {
			t.Errorf("%.60s: event %q, %v", media, got.Event, err)
			continue
		}
		p, _, err := inbox.PlanFor(rules, inbox.Delivery{Headers: got.Headers, Body: body})
		if n, _ := p.Arguments["n"].(string); err != nil || n != want {
			t.Errorf("%.60s: %v, %v", media, p.Arguments, err)
		}
	}
}

// TestAnIDMayStandInAnyHeader: the header need not be stored. Two events with the same body remain
// two deliveries.
func TestAnIDMayStandInAnyHeader(t *testing.T) {
	for path, name := range map[string]string{
		"headers.idempotency-key": "Idempotency-Key", "headers.X-Event-Token": "X-Event-Token", "headers.x-request-id": "X-Request-Id",
	} {
		got, err := inbox.Source{Kind: inbox.HMAC, Header: "X-Signature", IDPath: path}.Read(inbox.Request{Header: header(name, "e1"), Body: []byte("{}")})
		if err != nil || got.ID != "e1" {
			t.Errorf("%s: %q, %v", path, got.ID, err)
		}
	}
	long, err := inbox.Source{Kind: inbox.HMAC, IDPath: "headers.x-id"}.Read(inbox.Request{Header: header("X-Id", strings.Repeat("a", 2000)), Body: []byte("{}")})
	if err != nil || long.ID == "sha256:"+long.Digest || !strings.HasPrefix(long.ID, "sha256:") {
		t.Errorf("a long one: %q, %v", long.ID, err)
	}
}

// TestSlacksChallenge: the challenge is returned and is not a delivery.
func TestSlacksChallenge(t *testing.T) {
	read := func(k inbox.Kind, body string) inbox.Content {
		c, err := inbox.Source{Kind: k}.Read(inbox.Request{Header: header("Content-Type", "application/json"), Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const asks = `{"token":"Jhj5","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`
	if c := read(inbox.Slack, asks); c.Challenge != "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" {
		t.Errorf("the challenge is %q", c.Challenge)
	}
	for _, c := range []inbox.Content{
		read(inbox.GitHub, asks), read(inbox.Slack, `{"challenge":"x","type":"event_callback"}`), read(inbox.Slack, `{"challenge":"a\nb","type":"url_verification"}`),
	} {
		if c.Challenge != "" {
			t.Errorf("%q is given back", c.Challenge)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("github", "application/json", "payload", []byte(`{"action":"opened"}`))
	f.Add("slack", "application/x-www-form-urlencoded", "", []byte(slackBody))
	f.Add("token", "application/cloudevents+json", "1.0", []byte(`{"specversion":"1.0","id":"7","source":"/","type":"a"}`))
	f.Add("hmac", "text/plain", "", []byte("[[[[{\"a\":\"\\u0000\"}"))
	f.Fuzz(func(t *testing.T, kind, media, version string, body []byte) {
		h := http.Header{"Content-Type": {media}, "Ce-Specversion": {version}, "X-Github-Delivery": {string(body)}, "Webhook-Id": {version}}
		c, err := inbox.Source{Kind: inbox.Kind(kind), IDPath: "body.id"}.Read(inbox.Request{Header: h, Body: body})
		if err != nil {
			if _, is := errors.AsType[*inbox.ContentError](err); !is {
				t.Errorf("%v", err)
			}
			return
		}
		if c.Challenge == "" && (c.ID == "" || len(c.ID) > 255 || strings.ContainsRune(c.ID, 0) || len(c.Event) > 255) || len(c.Challenge) > 1024 {
			t.Errorf("%+v", c)
		}
	})
}

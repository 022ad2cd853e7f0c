package remote_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	guard "github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
)

// Neither the result nor the error shows a secret, in whatever form a server echoes it.
func TestAnEchoedSecretIsNotSeen(t *testing.T) {
	quoted, _ := json.Marshal(canary)
	pad := func(n int) string { return strings.Repeat("x", n) }
	echoes := map[string][2]string{ // media type, body
		"as JSON":              {"application/json", `{"got":` + string(quoted) + `,"in":["a ` + strings.Trim(string(quoted), `"`) + ` b"]}`},
		"as a name":            {"application/json", `{` + string(quoted) + `:{}}`},
		"as a header":          {"text/plain", "Authorization: Bearer " + canary},
		"without its scheme":   {"text/plain", "token=" + canary},
		"escaped for a query":  {"text/plain", "?token=" + url.QueryEscape(canary)},
		"escaped for a path":   {"text/plain", "/" + url.PathEscape(canary)},
		"in base64":            {"text/plain", base64.StdEncoding.EncodeToString([]byte(canary))},
		"as JSON in text":      {"text/plain", string(quoted)},
		"as JSON, not escaped": {"text/plain", strings.ReplaceAll(canary, `"`, `\"`)},
		"at the edge":          {"text/plain", pad(remote.MaxQuote-5) + canary + pad(100)},
		"behind the edge":      {"text/plain", pad(remote.MaxAnswer-5) + canary},
		"of the parameters":    {"text/plain", "4711-of-the-url"},
		"in clear":             {"text/plain", "plain-0815 and 0815"},
	}
	for name, echo := range echoes {
		for _, status := range []int{200, 400, 500} {
			u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", echo[0])
				w.WriteHeader(status)
				fmt.Fprint(w, echo[1])
			})
			k := made(t, outbound(plain(t)), `{"url":"`+u+`/?api_key=4711-of-the-url","headers":{"Authorization":{"$secret":"crm_bearer"},"X-Api-Key":"plain-0815"}}`)
			out, err := k.Do(t.Context(), call(`{}`))
			shown := fmt.Sprintf("%v %+v", out, err)
			if refusal, ok := errors.AsType[*skill.RefusalError](err); ok {
				shown += refusal.Reason
			}
			for _, leak := range []string{canary[:8], url.QueryEscape(canary)[:10], "4711-of-the-url", "plain-0815", base64.StdEncoding.EncodeToString([]byte(canary))[:8]} {
				if strings.Contains(shown, leak) {
					t.Errorf("%s, %d: %q stands in %.300s", name, status, leak, shown)
				}
			}
			if status == 200 && err == nil && !strings.Contains(shown, skill.Redacted) {
				t.Errorf("%s: nothing was taken out of %.300s", name, shown)
			}
		}
	}
}

func TestSecretsThatCanNotBeHad(t *testing.T) {
	u := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
	for _, c := range []struct {
		secret    string
		workspace db.Workspace
	}{{"nothing", workspace}, {"broken", workspace}, {"crm", "another"}} {
		k := made(t, outbound(plain(t)), `{"url":"`+u+`/","headers":{"X":{"$secret":"`+c.secret+`"}}}`)
		of := call(`{}`)
		of.Workspace = c.workspace
		_, err := k.Do(t.Context(), of)
		refusal, ok := errors.AsType[*skill.RefusalError](err)
		if !ok || refusal.Class != skill.Ours || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", c.secret, err)
		}
	}
}

// A client's error shows neither secrets nor the URL.
func TestAFailureShowsNoSecret(t *testing.T) {
	k := made(t, outbound(refuser{&url.Error{Op: "Post", URL: "https://a.example/?api_key=4711-of-the-url", Err: errors.New("bad header: " + canary)}}),
		`{"url":"https://a.example/?api_key=4711-of-the-url","headers":{"X":{"$secret":"crm"}}}`)
	_, err := k.Do(t.Context(), call(`{}`))
	if err == nil || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "4711-of") || !strings.Contains(err.Error(), "bad header: [redacted]") {
		t.Errorf("got %v", err)
	}
}

// TestAnAnswerThatIsTooLongHasCome: nobody looks for a fault of the network.
func TestAnAnswerThatIsTooLongHasCome(t *testing.T) {
	err := remote.Secrets{}.Failure(&url.Error{Op: "Post", Err: &guard.SizeError{What: "response body", Limit: 1 << 20}}, nil, true)
	open, ok := errors.AsType[*skill.UncertainError](err)
	if !ok || open.Reason != "the request was sent, and its answer is larger than 1048576 bytes" {
		t.Errorf("it says %v", err)
	}
}

func TestRedactLeavesTheRest(t *testing.T) {
	s := remote.NewSecrets("abc", "longer-secret", "longer-secret-still", "Basic dXNlcjpwYXNz")
	for given, want := range map[string]string{
		"abc is too short to be one":   "abc is too short to be one",
		"a longer-secret-still, it is": "a [redacted], it is",
		"a longer-secret, it is":       "a [redacted], it is",
		"dXNlcjpwYXNz Basic":           "[redacted] Basic",
		"Basic dXNlcjpwYXNz":           "[redacted]",
		"nothing of it":                "nothing of it",
		"":                             "",
	} {
		if got := s.Redact(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
	var none remote.Secrets
	if none.Redact("x") != "x" || none.With("four-or-more").Redact("four-or-more") != skill.Redacted {
		t.Error("no secrets hide something, or added ones nothing")
	}
	v := s.RedactValue(map[string]any{"n": json.Number("1"), "longer-secret": []any{"longer-secret", true, nil}})
	if raw, _ := json.Marshal(v); string(raw) != `{"[redacted]":["[redacted]",true,null],"n":1}` {
		t.Errorf("got %s", raw)
	}
	if v := remote.NewSecrets("123456").RedactValue(json.Number("123456")); v != skill.Redacted {
		t.Errorf("a number that is a secret is %v", v)
	}
}

package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func TestWhatIsSent(t *testing.T) {
	var got string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body))
	})
	for _, c := range []struct{ config, arguments, want string }{
		{`"url":"{url}/a"`, `{"b":1.50,"a":"x"}`, `POST /a {"a":"x","b":1.50}`},
		{`"url":"{url}"`, `{}`, `POST / {}`},
		{`"url":"{url}/a?x=1","method":"PUT"`, `{"n":12345678901234567890}`, `PUT /a?x=1 {"n":12345678901234567890}`},
		{`"url":"{url}/users/{id}/notes","method":"PATCH"`, `{"id":7,"text":"t"}`, `PATCH /users/7/notes {"text":"t"}`},
		{`"url":"{url}/users/{id}","method":"DELETE"`, `{"id":"a b/c"}`, `DELETE /users/a%20b%2Fc`},
		{`"url":"{url}/users/{id}","method":"DELETE"`, `{"id":"a","why":"w"}`, `DELETE /users/a {"why":"w"}`},
		{`"url":"{url}/{id}-{id}.json?q={q}&id={id}"`, `{"id":"1","q":"a&b=c#d"}`, `POST /1-1.json?q=a%26b%3Dc%23d&id=1 {}`},
		{`"url":"{url}/s","method":"GET"`, `{"q":"a b","n":3,"yes":true,"no":null,"l":["x","y",1]}`, `GET /s?l=x&l=y&l=1&n=3&q=a+b&yes=true`},
		{`"url":"{url}/s?k=v","method":"GET"`, `{"k":"w"}`, `GET /s?k=v&k=w`},
		{`"url":"{url}/s?q={q}","method":"GET"`, `{"q":"a","r":"b"}`, `GET /s?q=a&r=b`},
		{`"url":"{url}/s","method":"GET"`, `{}`, `GET /s`},
		{`"url":"{url}/s","method":"HEAD"`, `{"q":"a"}`, `HEAD /s?q=a`},
		{`"url":"{url}/ä/%2F|\"/{id}"`, `{"id":"a/b"}`, `POST /%C3%A4/%2F%7C%22/a%2Fb {}`},
	} {
		config := "{" + strings.ReplaceAll(c.config, "{url}", url) + "}"
		k := made(t, outbound(plain(t)), config, "id", "q")
		if _, err := k.Do(t.Context(), call(c.arguments)); err != nil || got != c.want {
			t.Errorf("%s with %s sends %s\nwant %s (%v)", c.config, c.arguments, got, c.want, err)
		}
	}
}

func TestHeadersAndKey(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	k := made(t, outbound(plain(t)), `{"url":"`+url+`","headers":{"authorization":{"$secret":"crm_bearer"},"X-Plain":"p","content-type":"application/x+json"},"idempotencyKeyHeader":"Idempotency-Key"}`)
	if !k.Keyed {
		t.Error("it is not keyed")
	}
	if _, err := k.Do(t.Context(), call(`{}`)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + canary, "X-Plain": "p", "Content-Type": "application/x+json", "Idempotency-Key": "run-1:2.1", "User-Agent": "Lanekeeper",
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
	for config, want := range map[string]bool{
		`{"url":"` + url + `"}`:                   false,
		`{"url":"` + url + `","method":"GET"}`:    true,
		`{"url":"` + url + `","method":"HEAD"}`:   true,
		`{"url":"` + url + `","method":"PUT"}`:    false,
		`{"url":"` + url + `","method":"DELETE"}`: false,
	} {
		if k := made(t, outbound(plain(t)), config); k.Keyed != want {
			t.Errorf("%s is keyed: %v", config, k.Keyed)
		}
		if _, err := made(t, outbound(plain(t)), config).Do(t.Context(), call(`{}`)); err != nil || got.Get("Idempotency-Key") != "" {
			t.Errorf("%s sends a key (%v)", config, err)
		}
	}
}

func TestRegistrationRefuses(t *testing.T) {
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprintf("X-%d", i)] = "v"
	}
	tooMany, _ := json.Marshal(many)
	for config, field := range map[string]string{
		`{}`:                                                             "config.url",
		`{"url":""}`:                                                     "config.url",
		`{"url":"a.example"}`:                                            "config.url",
		`{"url":"//a.example/"}`:                                         "config.url",
		`{"url":"ftp://a.example/"}`:                                     "config.url",
		`{"url":"HTTPS://a.example/"}`:                                   "config.url",
		`{"url":"file:///etc/passwd"}`:                                   "config.url",
		`{"url":"https://"}`:                                             "config.url",
		`{"url":"https:///path"}`:                                        "config.url",
		`{"url":"https://:443/"}`:                                        "config.url",
		`{"url":"https://a.example/#f"}`:                                 "config.url",
		`{"url":"https://a.example/ b"}`:                                 "config.url",
		`{"url":"https://a.example\\@b.example/"}`:                       "config.url",
		`{"url":"https://a.example/%"}`:                                  "config.url",
		`{"url":"https://a.example/%{id}"}`:                              "config.url",
		`{"url":"https://a.example/%2{id}"}`:                             "config.url",
		`{"url":"https://a.example/?a;b"}`:                               "config.url",
		`{"url":"https://me:pw@a.example/"}`:                             "config.url",
		`{"url":"https://{id}@a.example/"}`:                              "config.url",
		`{"url":"https://{id}.example/"}`:                                "config.url",
		`{"url":"https://a.example{id}/"}`:                               "config.url",
		`{"url":"https://a.example:{id}/"}`:                              "config.url",
		`{"url":"{id}://a.example/"}`:                                    "config.url",
		`{"url":"https://a.example/{}"}`:                                 "config.url",
		`{"url":"https://a.example/{id"}`:                                "config.url",
		`{"url":"https://a.example/id}"}`:                                "config.url",
		`{"url":"https://a.example/{{id}}"}`:                             "config.url",
		`{"url":"https://a.example/{i d}"}`:                              "config.url",
		`{"url":"https://a.example/?q={id/x}"}`:                          "config.url",
		`{"url":"https://a.example/{optional}"}`:                         "config.url",
		`{"url":"https://a.example/?k=[redacted]"}`:                      "config.url",
		`{"url":"https://forbidden.example/"}`:                           "config.url",
		`{"url":"https://a.example/` + strings.Repeat("a", 8<<10) + `"}`: "config.url",
		`{"url":1}`: "config.url",
		`{"url":"https://a.example/","method":"get"}`:                                         "config.method",
		`{"url":"https://a.example/","method":"CONNECT"}`:                                     "config.method",
		`{"url":"https://a.example/","body":"x"}`:                                             "config.body",
		`{"url":"https://a.example/","URL":"x"}`:                                              "config.URL",
		`{"url":"https://a.example/","idempotencyKeyHeader":"a b"}`:                           "config.idempotencyKeyHeader",
		`{"url":"https://a.example/","idempotencyKeyHeader":"Host"}`:                          "config.idempotencyKeyHeader",
		`{"url":"https://a.example/","headers":[]}`:                                           "config.headers",
		`{"url":"https://a.example/","headers":` + string(tooMany) + `}`:                      "config.headers",
		`{"url":"https://a.example/","headers":{"":"x"}}`:                                     "config.headers.",
		`{"url":"https://a.example/","headers":{"a b":"x"}}`:                                  "config.headers.a b",
		`{"url":"https://a.example/","headers":{"a\r\nb":"x"}}`:                               "config.headers.a\r\nb",
		`{"url":"https://a.example/","headers":{"Host":"x"}}`:                                 "config.headers.Host",
		`{"url":"https://a.example/","headers":{"content-length":"1"}}`:                       "config.headers.content-length",
		`{"url":"https://a.example/","headers":{"Transfer-Encoding":"x"}}`:                    "config.headers.Transfer-Encoding",
		`{"url":"https://a.example/","headers":{"X":"x","x":"y"}}`:                            "config.headers.x",
		`{"url":"https://a.example/","idempotencyKeyHeader":"x-key","headers":{"X-Key":"x"}}`: "config.headers.X-Key",
		`{"url":"https://a.example/","headers":{"X":"a\r\nb: c"}}`:                            "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":"a\u0000"}}`:                              "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":"ä"}}`:                                    "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":"[redacted]"}}`:                           "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":1}}`:                                      "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":null}}`:                                   "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":["a"]}}`:                                  "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":{"$secret":""}}}`:                         "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":{"$secret":"a b"}}}`:                      "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":{"$secret":1}}}`:                          "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":{"$secret":"a","b":"c"}}}`:                "config.headers.X",
		`{"url":"https://a.example/","headers":{"X":{"secret":"a"}}}`:                         "config.headers.X",
	} {
		_, err := register(outbound(nil), config, "id")
		invalid, ok := errors.AsType[*skill.InvalidError](err)
		if !ok || len(invalid.Fields) != 1 || invalid.Fields[0].Field != field {
			t.Errorf("%.100s: %v, want %s refused", config, err, field)
		}
	}
	for _, config := range []string{
		`{"url":"https://a.example"}`,
		`{"url":"https://a.example:8443/a//b/../{id}?x=1&y={id}"}`,
		`{"url":"http://[::1]:80/{id}"}`,
		`{"url":"https://a.example/","headers":{}}`,
		`{"url":"https://a.example/","headers":null,"method":""}`,
	} {
		if _, err := register(outbound(nil), config, "id"); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// The address is checked at registration, with example values in its places. The error of the check
// shows no parameter that looks like a secret.
func TestTheURLIsCheckedAtRegistration(t *testing.T) {
	var checked []string
	out := outbound(nil)
	out.Check = func(raw string) error {
		checked = append(checked, raw)
		return fmt.Errorf("%s is no good", raw)
	}
	_, err := register(out, `{"url":"https://a.example/{id}/x?key=canary-4711&q={id}"}`, "id")
	if !slices.Equal(checked, []string{"https://a.example/x/x?key=canary-4711&q=x"}) {
		t.Errorf("checked %q", checked)
	}
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
	for _, c := range []struct{ config, arguments string }{
		{`"url":"{url}/{id}"`, `{}`},
		{`"url":"{url}/{id}"`, `{"id":null}`},
		{`"url":"{url}/{id}"`, `{"id":[1]}`},
		{`"url":"{url}/{id}"`, `{"id":{"a":1}}`},
		{`"url":"{url}/{id}"`, `{"id":""}`},
		{`"url":"{url}/{id}"`, `{"id":".."}`},
		{`"url":"{url}/{id}"`, `{"id":"."}`},
		{`"url":"{url}/.{id}"`, `{"id":"."}`},
		{`"url":"{url}/%2e{id}"`, `{"id":"."}`},
		{`"url":"{url}/{id}{q}"`, `{"id":".","q":"."}`},
		{`"url":"{url}/{id}"`, `{"id":"../admin"}`},
		{`"url":"{url}/{id}"`, `{"id":"..\\admin"}`},
		{`"url":"{url}/{id}"`, `{"id":"x/../admin"}`},
		{`"url":"{url}/{id}"`, `{"id":"..;x/admin"}`},
		{`"url":"{url}/{id}"`, `{"id":"%2e%2e"}`},
		{`"url":"{url}/{id}"`, `{"id":"%2e%2e%2fadmin"}`},
		{`"url":"{url}/{id}"`, `{"id":"%252e%252e"}`},
		{`"url":"{url}/{id}"`, `{"id":"%25252e%25252e"}`},
		{`"url":"{url}/{id}"`, `{"id":"a\nb"}`},
		{`"url":"{url}/{id}"`, `{"id":"a\u0000"}`},
		{`"url":"{url}/?q={id}"`, `{"id":null}`},
		{`"url":"{url}/","method":"GET"`, `{"a":{"b":1}}`},
		{`"url":"{url}/","method":"GET"`, `{"a":[[1]]}`},
		{`"url":"{url}/","method":"GET"`, `{"a":[null]}`},
		{`"url":"{url}/"`, `[]`},
	} {
		k := made(t, outbound(plain(t)), "{"+strings.ReplaceAll(c.config, "{url}", url)+"}", "id", "q")
		_, err := k.Do(t.Context(), call(c.arguments))
		if refusal, ok := errors.AsType[*skill.RefusalError](err); !ok || refusal.Class != skill.Input {
			t.Errorf("%s with %s: %v", c.config, c.arguments, err)
		}
	}
}

// A call may use all the time of its context, whatever the client's own limit is.
func TestACallHasItsTime(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	var given time.Duration
	out := outbound(plain(t))
	out.Patience = func(ctx context.Context, d time.Duration) context.Context {
		given = d
		return ctx
	}
	k := made(t, out, `{"url":"`+url+`"}`)
	if _, err := k.Do(t.Context(), call(`{}`)); err != nil || given != 0 {
		t.Errorf("without a deadline: %s (%v)", given, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := k.Do(ctx, call(`{}`)); err != nil || given < 59*time.Minute || given > time.Hour {
		t.Errorf("with an hour: %s (%v)", given, err)
	}
}

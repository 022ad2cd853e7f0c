package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

func knowing(texts ...string) *redact.Redactor {
	r := redact.New(nil)
	for _, text := range texts {
		r.Add(secret.NewValue(text))
	}
	return r
}

func TestWhatKnownValuesLeaveAlone(t *testing.T) {
	r := knowing("tr0ub4dor&3", "", "abc", "true", "null", "redacted", "  padded value \n", redact.Mark)
	for in, want := range map[string]string{
		"nothing here":                         "nothing here",
		"tr0ub4dor&2 Tr0ub4dor&3 tr0ub4dor":    "tr0ub4dor&2 Tr0ub4dor&3 tr0ub4dor",
		"abc true null [redacted]":             "abc true null [redacted]",
		"x tr0ub4dor&3tr0ub4dor&3 y":           "x [redacted][redacted] y",
		"a padded value b":                     "a [redacted] b",
		`{"a":"tr0ub4dor&3","b":[true,null]}`:  `{"a":"[redacted]","b":[true,null]}`,
		`{"a":"tr0ub4dor\u00263","n":1.000}`:   `{"a":"[redacted]","n":1.000}`,
		"tr0ub4dor%263 100% tr0ub4dor%2":       "[redacted] 100% tr0ub4dor%2",
		`path C:\new\tr0ub4dor\u0026x \u12`:    `path C:\new\tr0ub4dor\u0026x \u12`,
		"dHIwdWI0ZG9yJjM= and dHIwdWI0ZG9yJkM": "[redacted] and dHIwdWI0ZG9yJkM",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestValuesThatOverlap(t *testing.T) {
	r := knowing("abcdefgh", "efghijkl", "abcdefghij", "aaaaaa")
	for in, want := range map[string]string{
		"x abcdefghijkl y": "x [redacted] y", "x abcdefghij y": "x [redacted] y", "abcdefgefghijkl": "abcdefg[redacted]", "aaaaaa": "[redacted]",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestValuesOfTwoParts(t *testing.T) {
	r := knowing("Bearer tr0ub4dor33", "-----BEGIN KEY-----\nline-one-is-secret\nline-two-is-secret\n-----END KEY-----")
	for in, want := range map[string]string{
		"token tr0ub4dor33 was refused": "token [redacted] was refused",
		"bad line: line-two-is-secret!": "bad line: [redacted]!",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestARunKnowsWhatItsProcessKnows(t *testing.T) {
	process := redact.New(nil)
	run, other := redact.New(process), redact.New(process)
	run.Add(secret.NewValue("of-the-run"))
	process.Add(secret.NewValue("of-the-process"))
	for _, c := range []struct {
		r    *redact.Redactor
		want string
	}{
		{run, "[redacted] [redacted]"}, {other, "[redacted] of-the-run"}, {process, "[redacted] of-the-run"}, {nil, "of-the-process of-the-run"},
	} {
		if got := c.r.Text("of-the-process of-the-run"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	var none *redact.Redactor
	none.Add(secret.NewValue("of-the-run"))
}

func TestAddWhileReading(t *testing.T) {
	r := redact.New(nil)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				value := fmt.Sprintf("canary-%d-%d-x", i, j)
				r.Add(secret.NewValue(value))
				if out := r.Text("a " + value); strings.Contains(out, value) {
					t.Errorf("%s is told", value)
				}
			}
		})
	}
	all.Wait()
	for i := range 4 {
		for j := range 50 {
			if value := fmt.Sprintf("canary-%d-%d-x", i, j); r.Text(value) != redact.Mark {
				t.Errorf("%s is forgotten", value)
			}
		}
	}
}

// JSON keeps its structure. JSON without secrets stays the same to the byte.
func TestJSON(t *testing.T) {
	r := knowing("tr0ub4dor", "271828182845")
	for in, want := range map[string]string{
		`{"a":1.0,"b":12345678901234567890.10e+05, "c" : [ ] }`:                 "",
		`{"prompt_tokens":10,"total_tokens":12,"token_usage":{"max_tokens":5}}`: "",
		`{"password":"x","user":"u"}`:                                           `{"password":"[redacted]","user":"u"}`,
		`{"password":"","token":null,"has_token":true,"secret":false}`:          "",
		`{"apiKey":123.50,"n":1}`:                                               `{"apiKey":"[redacted]","n":1}`,
		`{"credentials":{"user":"u","n":[1,{"x":"y"}],"ok":true},"after":"z"}`:  `{"credentials":{"user":"[redacted]","n":["[redacted]",{"x":"[redacted]"}],"ok":true},"after":"z"}`,
		`{"cookies":["a","b"],"list":["c"]}`:                                    `{"cookies":["[redacted]","[redacted]"],"list":["c"]}`,
		`{"cookies":[],"secret":{},"list":["c"]}`:                               "",
		`{"headers":{"Authorization":["Bearer x"]}}`:                            `{"headers":{"Authorization":["[redacted]"]}}`,
		`{"authorization":{"$secret":"github"}}`:                                "",
		`{"secrets":[{"$secret":"github"},"x"]}`:                                `{"secrets":[{"$secret":"github"},"[redacted]"]}`,
		`{"a":{"$secret":"tr0ub4dor"}}`:                                         `{"a":{"$secret":"[redacted]"}}`,
		`{"token":{"$secret":"a"},"x":"y"}`:                                     "",
		`{"pass\u0077ord":"x"}`:                                                 `{"pass\u0077ord":"[redacted]"}`,
		`{"a":"{\"password\":\"x\",\"n\":1.0}"}`:                                `{"a":"{\"password\":\"[redacted]\",\"n\":1.0}"}`,
		`{"n":271828182845,"m":2718281828}`:                                     `{"n":"[redacted]","m":2718281828}`,
		`{"tr0ub4dor":1}`:                                                       `{"[redacted]":1}`,
		`"tr0ub4dor"`:                                                           `"[redacted]"`,
		`["a<b>&c","tr0ub4dor <&>"]`:                                            `["a<b>&c","[redacted] <&>"]`,
		`271828182845`:                                                          `"[redacted]"`,
		`null`:                                                                  "",
		`"\ud800"`:                                                              "",
		`{"password":"[redacted]"}`:                                             "",
	} {
		if want == "" {
			want = in
		}
		if got := string(r.JSON(json.RawMessage(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
		if want != in {
			if again := string(r.JSON(json.RawMessage(want))); again != want {
				t.Errorf("again: %s becomes %s", want, again)
			}
		}
	}
	for in, want := range map[string]string{"": "", "{tr0ub4dor": `"{[redacted]"`, "nothing": `"nothing"`, `{"password":"x"`: `"{\"password\":\"[redacted]\""`} {
		if got := string(r.JSON(json.RawMessage(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// A secret that is JSON is embedded in other JSON.
func TestAValueThatIsJSON(t *testing.T) {
	r := knowing(`{"user":"u","n":1}`)
	for _, in := range []string{`{"a":{"user":"u","n":1}}`, `[1,{"user":"u","n":1},2]`, `{"user":"u","n":1}`} {
		if got := string(r.JSON(json.RawMessage(in))); !json.Valid([]byte(got)) || strings.Contains(got, `"u"`) {
			t.Errorf("%s becomes %s", in, got)
		}
		if got := r.Text(in); strings.Contains(got, `"u"`) {
			t.Errorf("%s becomes %s as a text", in, got)
		}
	}
	if got := string(r.JSON(json.RawMessage(`{"a":"{\"user\":\"u\",\"n\":1}","b":2}`))); got != `{"a":"[redacted]","b":2}` {
		t.Error(got)
	}
}

func TestTokensByTheirShape(t *testing.T) {
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAAAA\n-----END RSA PRIVATE KEY-----"
	for in, want := range map[string]string{
		"key AKIAIOSFODNN7EXAMPLE.":                                "key [redacted].",
		"ASIAIOSFODNN7EXAMPLE":                                     "[redacted]",
		"ghp_abcdefghijklmnopqrstuvwxyz0123456789":                 "[redacted]",
		"(github_pat_11ABCDEFG0abcdefghijkl_mnop)":                 "([redacted])",
		"glpat-abcdefghij0123456789":                               "[redacted]",
		"sk-proj-abcdefghijkl0123456789":                           "[redacted]",
		"sk-ant-api03-abcdefghijklmnop0":                           "[redacted]",
		"sk_live_abcdefghijklmnop":                                 "[redacted]",
		"xoxb-123456789012-abcdef":                                 "[redacted]",
		"AIzaSyA1234567890abcdefghijklmnopqrstuv":                  "[redacted]",
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":                   "[redacted]",
		"npm_abcdefghijklmnopqrstuvwxyz0123456789":                 "[redacted]",
		"a " + jwt + ", b":                                         "a [redacted], b",
		jwt + ".":                                                  "[redacted].",
		"Authorization: Bearer abcdef0123456789":                   "Authorization: [redacted]",
		"sent Bearer abcdef0123456789 to it":                       "sent Bearer [redacted] to it",
		"bearer  abcdef0123456789abc":                              "bearer  [redacted]",
		"Basic dXNlcjpwYXNzd29yZA== x":                             "Basic [redacted] x",
		"a\n" + pem + "\nb":                                        "a\n[redacted]\nb",
		quote("x\n" + pem):                                         `x\n[redacted]`,
		"-----BEGIN PRIVATE KEY-----\nMIIE cut":                    "[redacted]",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH": "[redacted]",
		"postgres://lk:hunter2@db:5432/x":                          "postgres://lk:[redacted]@db:5432/x",
		"https://u:p@ss@h/x and redis://:pw@h":                     "https://u:[redacted]@h/x and redis://:[redacted]@h",
		"password=hunter2&x=1":                                     "password=[redacted]&x=1",
		"https://h/p?api_key=abc&token=def#f":                      "https://h/p?api_key=[redacted]&token=[redacted]",
		"DB_PASSWORD=hunter2 HOME=/root":                           "DB_PASSWORD=[redacted] HOME=/root",
		`password = "hunter 2"`:                                    `password = "[redacted]"`,
		"Cookie: a=b; c=d\nHost: h":                                "Cookie: [redacted]\nHost: h",
		"map[Authorization:[Basic abc] Host:[h]]":                  "map[Authorization:[[redacted]",
		"{User:u Password:hunter2 Token:abc}":                      "{User:u Password:[redacted] Token:[redacted]}",
		`said {"password":"hunter2","n":1`:                         `said {"password":"[redacted]","n":1`,
		`said {\"password\":\"hunter2\",\"n\":1}`:                  `said {\"password\":\"[redacted]\",\"n\":1}`,
		`said {"password":"a\"b","n":1`:                            `said {"password":"[redacted]","n":1`,
		"{'token': 'abc', 'n': 1}":                                 "{'token': '[redacted]', 'n': 1}",
		"db:\n  password: hunter2\n  user: u":                      "db:\n  password: [redacted]\n  user: u",
		"[x]\naws_secret_access_key = wJalr/K7\nn = 1":             "[x]\naws_secret_access_key = [redacted]\nn = 1",
		"user = u\r\n  password  =  hunter2\r\n":                   "user = u\r\n  password  =  [redacted]\r\n",
		"authorization=Bearer abcdef0123456789abc x":               "authorization=[redacted] x",
		"X-Auth-Token:\ts3cret\n":                                  "X-Auth-Token:\t[redacted]\n",
		"X-Auth-Token:bearer s3cret\n":                             "X-Auth-Token:[redacted]\n",
		`curl -H "X-Api-Key: s3cret" -H 'X-Auth-Token: abc'`:       `curl -H "X-Api-Key: [redacted]" -H 'X-Auth-Token: [redacted]'`,
		`{"cmd":"curl -H \"X-Api-Key: s3cret\" x"`:                 `{"cmd":"curl -H \"X-Api-Key: [redacted]\" x"`,
		"hvs.CAESIJ_abcdefghijklmnop-0123456789":                   "[redacted]",
		"VAULT: hvb.AAAAAQJabcdefghijklmnop0123.":                  "VAULT: [redacted].",
		"dckr_pat_abcdefghij-klmnopqrst_uv":                        "[redacted]",
		"ATATT3xFfGF0abcdefghijklmnopqrstuvwxyz_-0=1A2B3C4D, x":    "[redacted], x",
		"//hooks.slack.com/services/T0000/B0000/abcdef0123456789":  "//[redacted]",
		"['password' => 'hunter 2', 'n' => 1]":                     "['password' => '[redacted]', 'n' => 1]",
		`{"api_key"=>"abc", :token => "def"}`:                      `{"api_key"=>"[redacted]", :token => "[redacted]"}`,
		"<user>u</user><password>hunter 2</password>":              "<user>u</user><password>[redacted]</password>",
		"<ns:clientSecret>x</ns:clientSecret>":                     "<ns:clientSecret>[redacted]</ns:clientSecret>",
		"run --password hunter2 --host h":                          "run --password [redacted] --host h",
		"run --password letmein --host h":                          "run --password [redacted] --host h",
		"run --password letmein\nand more":                         "run --password [redacted]\nand more",
		`["run","--password","hunter2","--pin",1,"--token",42]`:    `["run","--password","[redacted]","--pin",1,"--token","[redacted]"]`,
		`args: ["--password", "hunter 2", "--host"`:                `args: ["--password", "[redacted]", "--host"`,
		`args: [\"--password\",\"hunter 2\",`:                      `args: [\"--password\",\"[redacted]\",`,
		"['run', '--db-password', 'x']":                            "['run', '--db-password', '[redacted]']",
		`<password type="x">hunter 2</password>`:                   `<password type="x">[redacted]</password>`,
		"<a:token\n  kind='b'\n>x</a:token>":                       "<a:token\n  kind='b'\n>[redacted]</a:token>",
		`at https://a.blob/k?sv=1\u0026sig=ab%2B\u0026se=1`:        `at https://a.blob/k?sv=1\u0026sig=[redacted]\u0026se=1`,
		`at https://a/k?v=1\u0026api_key=abc1 x`:                   `at https://a/k?v=1\u0026api_key=[redacted] x`,
		`run --api-key "a b" x`:                                    `run --api-key "[redacted]" x`,
		`a\n--token abc1 x`:                                        `a\n--token [redacted] x`,
		"https://b/k?X-Amz-Signature=0123abcdef&x":                 "https://b/k?X-Amz-Signature=[redacted]&x",
		"https://a.blob/k?sv=2024&sig=ab%2Bcd%3D&se=1":             "https://a.blob/k?sv=2024&sig=[redacted]&se=1",
		`line\nsk-abcdefghijklmnopqrst0`:                           `line\n[redacted]`,
		`a%20ghp_abcdefghijklmnopqrstuvwxyz`:                       `a%20[redacted]`,
		`\u0022ghp_abcdefghijklmnopqrstuvwxyz`:                     `\u0022[redacted]`,
	} {
		var r *redact.Redactor
		got := r.Text(in)
		if got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
		if again := r.Text(got); again != got {
			t.Errorf("again: %q becomes %q", got, again)
		}
	}
}

func TestTextsThatAreNoSecrets(t *testing.T) {
	for _, in := range []string{
		"", "a", "task-force-of-twenty-people-2", "risk-assessment-of-2024-report-x", "sk-learn-and-other-libraries", "ask-me", "skateboard",
		"AKIA", "AKIAshort", "MAKIAIOSFODNN7EXAMPLEX", "eyJ", "eyJhbGciOiJIUzI1NiJ9", "eyJ.a.b", "a.b.c",
		"Bearer of bad news", "the bearer is authenticated-somewhere", "Bearer token", "Basic authentication", "BASIC", "basic understanding",
		"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----", "-----", "a -- b --- c",
		"prompt_tokens=12 max_tokens=5", `"total_tokens": 12`, "the token: it is a unit of text", "Token: a unit of text that a model reads",
		"password == x", "password := x", `the "token: a unit of text" is said`, `"the token: it"`,
		"the password = x", "password = the one that you know", "password = null\n",
		"use the --token flag to say who you are", "--password --host h", "a--token abc1", "--secret-name abc1", "--tokens-of x1",
		`["--token","--password","--host","h"]`, `{"a":"--token","b":"x"}`, `["--token"]`, `args: ["--token", "--host"`, `["--secret-name","x"]`,
		`<a b="token">c</a>`, `<password type="x"></password>`, `<password type="x"/><b>c</b>`, `a\u0026design=x`, `["--token",["x"]]`,
		"send <token> in the header", "<token></token>", "<user>password</user>", "if a.token>b { c<d }", "const f = token => token.id",
		"hvs.a_method_of_a_package_here", "https://hooks.slack.com/services/", "design=sig=nature", "https://h/p?significant=yes&design=x",
		"if token == nil {", "secret=", "token=null", `"password": ""`, "password: null",
		"https://example.com:8080/x@y", "https://user@host/x", "mailto:a@b", "http://[::1]:80", "://", "a://b", "12:30", "see: https://x/token",
		"arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-AbCdEf", "resolve secret github: no secret named github", "put secret api_token: denied",
		"objective:42 session:web:visitor memory:flowpilot", "dGhlIHF1aWNrIGJyb3duIGZveA==", "0190d0a8-0000-7000-8000-000000000001", "trace hb_0mh8c1v2q_a7x2p1k9d4",
		`{"token_usage":{"prompt_tokens":1}}`, "10%", "100%25", "a\\", `\u`, `\u12`, "%", "%4", "ä=ö:ü", "=", ":", "=:=:=",
	} {
		var r *redact.Redactor
		if got := r.Text(in); got != in {
			t.Errorf("%q becomes %q", in, got)
		}
		if got := knowing("tr0ub4dor with space").Text(in); got != in {
			t.Errorf("%q becomes %q beside a value", in, got)
		}
	}
}

func TestLargeInput(t *testing.T) {
	r := knowing("tr0ub4dor", "with a space")
	over := strings.Repeat("x", redact.MaxText) + "tr0ub4dor"
	if got := r.Text(over); got != "[redacted]: 2097161 bytes" {
		t.Errorf("%.100s", got)
	}
	if got := r.JSON(json.RawMessage(`"` + over + `"`)); string(got) != `"[redacted]: 2097163 bytes"` {
		t.Errorf("%.100s", got)
	}
	within := strings.Repeat("x", redact.MaxText-9) + "tr0ub4dor"
	if got := r.Text(within); !strings.HasSuffix(got, "x[redacted]") || len(got) != len(within)+1 {
		t.Errorf("%d bytes, …%s", len(got), got[len(got)-20:])
	}
	deep := strings.Repeat("[", 9_000) + `"tr0ub4dor"` + strings.Repeat("]", 9_000)
	if got := r.JSON(json.RawMessage(deep)); !json.Valid(got) || bytes.Contains(got, []byte("tr0ub4dor")) {
		t.Errorf("%.100s", got)
	}
}

// The output never contains a known value. Valid JSON stays valid, and JSON without secrets stays
// the same.
func FuzzRedactJSON(f *testing.F) {
	for _, s := range []string{
		`{"password":"x"}`, `{"a":"tr0ub4dor&3"}`, `{"a":"tr0ub4dor\u00263"}`, `{"a":{"$secret":"b"},"token":["c",1]}`, `"{\"token\":\"x\"}"`, `[1e5,-0.0,"\ud800"]`,
		`tr0ub4dor%263`, `dHIwdWI0ZG9yJjM=`, "password=x", `{"password":`, "-----BEGIN PRIVATE KEY-----", "Bearer abcdef0123456789", "eyJhbGciOiJIUzI1NiJ9.a.b", "a://b:c@d",
		`"password":"\`, `token='`, `cookie:`, "basic ", `\u0074\u0072`, "%74%72", "74723075623464",
	} {
		f.Add(s)
	}
	const value = "tr0ub4dor&3"
	known, none := knowing(value), (*redact.Redactor)(nil)
	f.Fuzz(func(t *testing.T, in string) {
		raw := json.RawMessage(in)
		for _, r := range []*redact.Redactor{known, none} {
			out := r.JSON(raw)
			if len(in) > 0 && !json.Valid(out) {
				t.Fatalf("%q becomes %q, which is no JSON", in, out)
			}
			if json.Valid(raw) && r == none && shape(t, raw) != shape(t, out) {
				t.Fatalf("%q becomes %q, which is built otherwise", in, out)
			}
			if again := r.JSON(out); !json.Valid(again) && len(again) > 0 {
				t.Fatalf("again: %q becomes %q", out, again)
			}
		}
		for _, out := range []string{known.Text(in), string(known.JSON(raw))} {
			if strings.Contains(out, value) || strings.Contains(out, quote(value)) || strings.Contains(out, url.QueryEscape(value)) {
				t.Fatalf("%q becomes %q", in, out)
			}
		}
	})
}

// shape describes the structure of a JSON text: its brackets and the number of values between them.
func shape(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b strings.Builder
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if bracket, ok := token.(json.Delim); ok {
			b.WriteString(bracket.String())
		} else {
			b.WriteByte('.')
		}
	}
}

func BenchmarkRedactor(b *testing.B) {
	prose := strings.Repeat("The quick brown fox, having read 12 pages: jumps over the lazy dog (again). ", 400)
	doc := `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"id":"0190d0a8-0000-7000-8000-000000000001","status":"running","n":12.5,"note":"nothing to see here"},`, 300), ",") + `]}`
	for name, r := range map[string]*redact.Redactor{"nothing known": nil, "20 known": knowing(canaries()...)} {
		b.Run("text, "+name, func(b *testing.B) {
			b.SetBytes(int64(len(prose)))
			for b.Loop() {
				r.Text(prose)
			}
		})
		b.Run("JSON, "+name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				r.JSON(json.RawMessage(doc))
			}
		})
		b.Run("log line, "+name, func(b *testing.B) {
			for b.Loop() {
				r.Text("a lane was released by force")
			}
		})
	}
}

// The time is proportional to the length of the text. With quadratic time each of these would take
// minutes.
func TestHostileInput(t *testing.T) {
	r := knowing("aaaaaaaaaaaaaaaaaaaaaaaab", "with a space", strings.Repeat("ab", secret.MaxValue/2))
	for _, part := range []string{
		"a", "ab", "eyJ", "eyJ-", "eyJabcdefghij.", "eyJ.", "sk-", "sk-a", "ghp_", "AKIA", "Bearer ", "basic ", "Basic a", "bearer a", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----",
		"://a", "://a:", "://a:b@", "password=", "password='", `token="`, `\"token\":\"`, `"token":"[redacted]`, "cookie:", "cookie: [redacted]", "cookie: ", "token: ", "\ntoken: ", "token: \n",
		`\`, `\\u005c`, `\"`, "%", "%25", "%5c", `\%25`, "+", "%2b", "[", "{", `{"`, `"`, `"\`, "=", ":", " ", "\n", "key.", "api_key",
		"<token>", "<token>a", "<token a", "<token a>", "<token>>>>", `"--token","`, `"--token","[redacted]`, `"--token",`, `\u0026sig=`, `\u0026`,
		"<token>b", "--token ", "--token a ", "--token '", "--", "token=>", "'token' => '", "?sig=", "hvs.", "hvs.a", "ATATT=", "hooks.slack.com/services/", "ü", "\xff", "[redacted]",
	} {
		text := strings.Repeat(part, redact.MaxText/8/len(part))
		for what, in := range map[string]string{"plain": text, "in JSON": string(must(json.Marshal(text)))} {
			begun := time.Now()
			if out := r.Text(in); len(out) > 8*len(in) {
				t.Errorf("%q, %s: %d bytes become %d", part, what, len(in), len(out))
			}
			r.JSON(json.RawMessage(in))
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("%q, %s: it takes %s", part, what, took)
			} else {
				t.Logf("%q, %s: %s", part, what, took)
			}
		}
	}
}

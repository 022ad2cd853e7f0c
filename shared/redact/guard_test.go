package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/redact"
)

const canary = "9k3xw7q2zt"

// tokens are of the shapes that a guard knows, and what is left of each.
var tokens = map[string]string{
	"AKIAIOSFODNN7EXAMPLE":                                                                  "AKIA",
	"sk-ant-api03-abcdefghijklmnop0123":                                                     "sk-",
	"sk-proj1234567890abcdefghij":                                                           "sk-",
	"ghp_0123456789abcdefghijABCDEFGHIJ":                                                    "ghp_",
	"ghs_0123456789abcdefghijABCDEFGHIJ":                                                    "ghs_",
	"xoxb-123456789012-abcdefghij":                                                          "xoxb-",
	"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":                                                "whsec_",
	"hvs.CAESIJ_abcdefghijklmnop-0123456789":                                                "hvs.",
	"dckr_pat_abcdefghij-klmnopqrst_uv":                                                     "dckr_pat_",
	"ATATT3xFfGF0abcdefghijklmnopqrstuv_-=1A2B":                                             "ATATT",
	"hooks.slack.com/services/T0000/B0000/abcdef0123456789":                                 "hooks.slack.com/services/",
	"lk_" + strings.Repeat("aB3-", 12):                                                      "lk_",
	"lks_" + strings.Repeat("aB3-", 12):                                                     "lks_",
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln":                                             "eyJ",
	"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----": "-----BEGIN ",
}

// TestAGuardHidesTokens: whoever's they are, alone and within a text.
func TestAGuardHidesTokens(t *testing.T) {
	g := redact.NewGuard(nil, canary)
	for token, left := range tokens {
		for _, around := range [][2]string{{"", ""}, {"It is ", ", I think."}, {"`", "`"}, {`{"key":"`, `"}`}, {"a\n", "\nb"}} {
			if got, want := g.Text(around[0]+token+around[1]), around[0]+left+redact.Mark+around[1]; got != want {
				t.Errorf("%q is told as %q", around[0]+token+around[1], got)
			}
		}
	}
	for _, plain := range []string{
		"", "Hello there, skip the ghost.", "sk-learn is a library", "the eyJ prefix.", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
		"lk_lane_acquire and lk_now()", "A password: hunter2 is bad", "https://u@example.org/?token=a", "9k3xw7 is not it", "é ü 🦊",
	} {
		if got := g.Text(plain); got != plain {
			t.Errorf("%q is told as %q", plain, got)
		}
	}
}

// TestACanaryEndsWhatIsTold: however it is written, nothing more comes behind it.
func TestACanaryEndsWhatIsTold(t *testing.T) {
	g := redact.NewGuard(nil, canary)
	for _, form := range []string{
		canary, strings.ToUpper(canary), "9 k 3 x w 7 q 2 z t", "9-k-3-x-w-7-q-2-z-t", "9k3xw\n7q2zt", "9\u200bk\u200b3\u200bx\u200bw\u200b7\u200bq\u200b2\u200bz\u200bt",
		"**9k3**xw7q2zt", hex.EncodeToString([]byte(canary)), strings.ToUpper(hex.EncodeToString([]byte(canary))),
		base64.StdEncoding.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte("the mark is " + canary + ", and the rules are")),
		base64.URLEncoding.EncodeToString([]byte("x " + canary + " y")), base64.StdEncoding.EncodeToString([]byte("xy" + strings.ToUpper(canary) + " y")),
	} {
		got := g.Text("My rules: " + form + ". The rest of them is secret.")
		if strings.Contains(got, "rest of them") || !strings.HasSuffix(got, redact.Mark) || !strings.HasPrefix(got, "My rules: ") || !g.Tells(form) {
			t.Errorf("%q is told as %q", form, got)
		}
	}
	if got := redact.NewGuard(nil, "").Text("9k3xw7q2zt"); got != "9k3xw7q2zt" {
		t.Errorf("without a canary it is told as %q", got)
	}
}

// TestAGuardedStreamTellsTheSame: in whatever pieces a text comes.
func TestAGuardedStreamTellsTheSame(t *testing.T) {
	const odd = `p/q"r&s t`
	g := redact.NewGuard(knowing("hunter2-hunter2", "sk-hunter", odd), canary)
	parts := []string{
		" ", "s", "sk", "sk-", "-", "-----", "gh", "ghp_", "eyJ", ".", "e", "9k3", "9k3xw7", "hunt", "hunter2-hunter2", "word ", "\n", "A", "AKIA", "\\n", "é", "lk_",
		"0123456789abcdefghij", base64.StdEncoding.EncodeToString([]byte("so " + canary)), "9 K 3 x w 7 q 2 z t", "sk-hunter",
		odd, quote(odd), url.QueryEscape(odd), everyByte(odd), html.EscapeString(odd), "p", "p/q", `p/q\`, "%", "%7", "&", "+", `\u`,
	}
	for token := range tokens {
		parts = append(parts, token)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 12).Draw(t, "parts"), "")
		want := g.Text(text)
		var out strings.Builder
		s := g.Stream()
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			out.WriteString(s.Next(rest[:n]))
			rest = rest[n:]
		}
		out.WriteString(s.Rest())
		if got := out.String(); got != want {
			t.Fatalf("%q is told as %q, whole as %q", text, got, want)
		}
		for _, secret := range []string{"hunter2-hunter2", "IOSFODNN7EXAMPLE", "0123456789abcdefghijABCDEFGHIJ", "MIIEpAIBAAKCAQEA", "eyJzdWIiOiIxIn0.c2ln", "9k3xw7q2zt", "9 K 3 x w 7"} {
			if strings.Contains(want, secret) {
				t.Fatalf("%q is told as %q", text, want)
			}
		}
	})
}

// TestOrdinaryWordsFlowAtOnce: nothing of them is kept back, and what is kept back has an end.
func TestOrdinaryWordsFlowAtOnce(t *testing.T) {
	s := redact.NewGuard(nil, canary).Stream()
	for _, piece := range []string{"Hell", "o", ", these geese ar", "e", " ghosts", " - s", "k", "ill", "s. A", "K", "47, 9", "k", "3", " eggs - ", "-", "\n"} {
		if got := s.Next(piece); got != piece {
			t.Errorf("of %q is told %q", piece, got)
		}
	}
	if got := s.Next("sk-"); got != "sk-" {
		t.Errorf("of a prefix is told %q", got)
	}
	told := ""
	for range 40 {
		told += s.Next(strings.Repeat("a1", 512))
	}
	if told != redact.Mark || s.Next("And so on.")+s.Rest() != "" {
		t.Errorf("of what does not end is told %q", told)
	}
}

// TestAGuardIsNotSlowedDown by a text that begins a token everywhere.
func TestAGuardIsNotSlowedDown(t *testing.T) {
	for _, begin := range []string{"SG.", "sk-", "hvs.", "hooks.slack.com/services/", "eyJ", "-----BEGIN ", "9k3xw7q2z"} {
		s := redact.NewGuard(nil, canary).Stream()
		for range 1 << 10 {
			s.Next(begin)
		}
		s.Rest()
	}
	g := redact.NewGuard(knowing("hunter2-hunter2"), canary)
	for _, whole := range []string{"hunter2-hunter2", "eyJhbGciOiJIUzI1NiJ9."} {
		g.Text(strings.Repeat(whole, 200_000))
	}
}

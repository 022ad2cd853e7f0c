package activity

import (
	"regexp"
	"strings"
	"testing"
)

// suspicious is a regular expression for what suspect reports.
var suspicious = regexp.MustCompile(`\\u|[0-9][eE][+-]?[0-9]{3}|[0-9.]{300}`)

func FuzzSuspect(f *testing.F) {
	for _, text := range []string{
		``, `{"a":1}`, `"\u0000"`, `"\\u"`, `"\`, `1e5`, `1e30`, `1e300`, `1E+300`, `1e-300`, `1e+30`, `e300`, `1e`, `1e-`, `1.e300`, `12e300`, `[1e30,0]`,
		strings.Repeat("9", 299), strings.Repeat("9", 300), strings.Repeat(".", 150) + " " + strings.Repeat("9", 150), strings.Repeat("1.", 150),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if suspect(text) != suspicious.Match(text) {
			t.Errorf("%q: %t", text, suspect(text))
		}
	})
}

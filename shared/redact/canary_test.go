package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/redact"
)

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw[1 : len(raw)-1])
}

func quotePlain(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	text := strings.TrimSpace(b.String())
	return text[1 : len(text)-1]
}

// ascii returns a JSON text in which every character outside of ASCII is escaped.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range quote(s) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	return b.String()
}

func everyByte(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

// entities writes each character as an HTML entity.
func entities(form, s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, form, r)
	}
	return b.String()
}

// named writes the characters that HTML has names for as named entities.
func named(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;", "/", "&sol;", "+", "&plus;", "=", "&equals;",
		":", "&colon;", "ä", "&auml;").Replace(s)
}

// forms are the encodings of a secret.
var forms = map[string]func(string) string{
	"as it is":              func(s string) string { return s },
	"JSON":                  quote,
	"JSON without HTML":     quotePlain,
	"JSON in ASCII":         ascii,
	"JSON with \\/":         func(s string) string { return strings.ReplaceAll(quotePlain(s), "/", `\/`) },
	"JSON twice":            func(s string) string { return quote(quote(s)) },
	"JSON three times":      func(s string) string { return quote(quote(quote(s))) },
	"query":                 url.QueryEscape,
	"path":                  url.PathEscape,
	"query in lower case":   func(s string) string { return lowerEscapes(url.QueryEscape(s)) },
	"query twice":           func(s string) string { return url.QueryEscape(url.PathEscape(s)) },
	"every byte escaped":    everyByte,
	"query of JSON":         func(s string) string { return url.PathEscape(quote(s)) },
	"JSON of a query":       func(s string) string { return quote(url.PathEscape(s)) },
	"hex":                   func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":                   func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"HTML":                  html.EscapeString,
	"HTML in decimal":       func(s string) string { return entities("&#%d;", s) },
	"HTML in hex":           func(s string) string { return entities("&#x%x;", s) },
	"HTML in HEX":           func(s string) string { return entities("&#X%04X;", s) },
	"HTML with zeros":       func(s string) string { return entities("&#%07d;", s) },
	"HTML without ;":        func(s string) string { return entities("&#%d", s) },
	"HTML by name":          named,
	"HTML twice":            func(s string) string { return html.EscapeString(entities("&#%d;", s)) },
	"JSON of HTML":          func(s string) string { return quote(entities("&#x%x;", quotePlain(s))) },
	"query of HTML":         func(s string) string { return url.QueryEscape(entities("&#%d;", s)) },
	"base64":                func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 for URLs":       func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64 unpadded":       func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 in a query":     func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s))) },
	"user in base64":        func(s string) string { return base64.StdEncoding.EncodeToString([]byte("user:" + s)) },
	"within base64, 1 byte": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("x" + s + "tail")) },
	"within base64, 2":      func(s string) string { return base64.URLEncoding.EncodeToString([]byte("xy" + s + "t")) },
	"within base64, 3":      func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte("xyz" + s + "ta")) },
}

func lowerEscapes(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '%' {
			copy(b[i:], bytes.ToLower(b[i:min(len(b), i+3)]))
		}
	}
	return string(b)
}

// Twenty canaries, in every form and in every surrounding text: none comes out.
func TestCanariesAreFoundNowhere(t *testing.T) {
	all := canaries()
	if len(all) < 20 {
		t.Fatalf("%d canaries", len(all))
	}
	r := knowing(all...)
	for _, canary := range all {
		for name, form := range forms {
			said := form(strings.TrimSpace(canary))
			for place, text := range map[string]string{
				"alone": said, "in a text": "the server said <" + said + ">, and more",
				"in JSON": `{"body":` + string(must(json.Marshal(said))) + `,"n":1}`, "in JSON in JSON": string(must(json.Marshal(`[{"x":"` + quote(said) + `"}]`))),
				"after JSON": `{"ok":true} ` + said, "twice": said + " " + said, "as a name": `{` + string(must(json.Marshal(said))) + `:1}`,
			} {
				clean(t, fmt.Sprintf("%s, %s, by Text", name, place), canary, said, r.Text(text))
				if json.Valid([]byte(text)) {
					out := r.JSON(json.RawMessage(text))
					if !json.Valid(out) {
						t.Errorf("%s, %s: no JSON any more: %s", name, place, out)
					}
					clean(t, fmt.Sprintf("%s, %s, by JSON", name, place), canary, said, string(out))
				}
			}
		}
	}
}

// Each form is tested alone, so that a form that is not searched for is always noticed.
func TestAKnownValueIsFoundInEachForm(t *testing.T) {
	for name, form := range forms {
		for _, value := range []string{"Correct-Horse:9/Battery+Staple=<&>", "plain0123456789word", "mit Umlauten äöü \"und\" mehr"} {
			said := form(value)
			if out := knowing(value).Text("before " + said + " after"); strings.Contains(out, said) || !strings.Contains(out, redact.Mark) {
				t.Errorf("%s: %q is %q", name, said, out)
			}
		}
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// clean checks that no form of a canary is in a text.
func clean(t *testing.T, how, canary, said, text string) {
	t.Helper()
	canary = strings.TrimSpace(canary)
	for _, bad := range []string{canary, said, quote(said), quote(quote(said))} {
		if strings.Contains(text, bad) {
			t.Errorf("%s: the canary %q is in %q", how, canary, text)
			return
		}
	}
	if !strings.Contains(text, redact.Mark) {
		t.Errorf("%s: nothing was replaced in %q", how, text)
	}
}

// For any secret and any surrounding text.
func TestKnownValuesAreFoundInEveryForm(t *testing.T) {
	names := slices.Sorted(maps.Keys(forms))
	text := rapid.StringMatching(`[ -~äß€\n🦜]{8,40}`)
	around := rapid.StringMatching(`[ -~\n]{0,30}`)
	rapid.Check(t, func(t *rapid.T) {
		value := strings.TrimSpace(text.Draw(t, "value"))
		if len(value) < 8 {
			t.Skip("short")
		}
		name := rapid.SampledFrom(names).Draw(t, "form")
		said := forms[name](value)
		// The surrounding text must not change how the form decodes.
		before, after := strings.TrimRight(around.Draw(t, "before"), `\%0123456789abcdefABCDEF`)+" ", " "+around.Draw(t, "after")
		out := knowing(value).Text(before + said + after)
		if strings.Contains(strings.ReplaceAll(out, redact.Mark, ""), said) {
			t.Fatalf("%s: %q is in %q", name, said, out)
		}
	})
}

// canaries are secrets of all kinds, including texts that encodings change.
func canaries() []string {
	out := []string{
		`canary with spaces`, `canary"quotes"and\back/slashes`, `canary&percent%=+query`, "canary\ttab and\nline", `canary-umlaut-äöü-ß`,
		`canary<html>&'quotes'`, `canary-emoji-🦜-end`, `cänary`, "canary\u2028separator", `{"canary":"json","n":1}`,
		`canary:basic@host/path?query#fragment`, `Bearer canary-abcdefgh`, "-----BEGIN CANARY-----\ncanary+line/one+canary\ncanary+line/two+canary\n-----END CANARY-----",
		`canary%20already%2Fescaped`, `canary\nnot a line\u0041`, `canary$'"` + "`" + `{shell}`,
	}
	for i := len(out); i < 20; i++ {
		out = append(out, fmt.Sprintf("canary-%d-%x", i, i*7919))
	}
	return out
}

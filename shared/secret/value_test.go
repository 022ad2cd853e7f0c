package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// holder holds a value in every way that code does.
type holder struct {
	Exported secret.Value
	hidden   secret.Value
	pointer  *secret.Value
	any      any
	List     []secret.Value
	Map      map[string]secret.Value
}

func TestAValueShowsNothing(t *testing.T) {
	for _, text := range awkward {
		v := secret.NewValue(text)
		if v.Reveal() != text {
			t.Fatalf("%d bytes are revealed as %d", len(text), len(v.Reveal()))
		}
		h := holder{v, v, &v, v, []secret.Value{v}, map[string]secret.Value{"k": v}}
		shown := map[string]string{
			"String": v.String(), "GoString": v.GoString(), "error": fmt.Errorf("call %v: %w", v, errors.New("x")).Error(),
			"diff": cmp.Diff(v.String(), "other"), "panic": panicked(v), "panic in a struct": panicked(h),
		}
		for _, verb := range "vdsqxXcUbotTeEfFgGpw" {
			for _, flags := range []string{"", "+", "#", "-", " ", "0", "10", ".3", "+#"} {
				format := "%" + flags + string(verb)
				for what, x := range map[string]any{"value": v, "pointer": &v, "struct": h, "pointer to struct": &h, "list": h.List, "map": h.Map} {
					shown[format+" of "+what] = fmt.Sprintf(format, x)
				}
			}
		}
		for what, x := range map[string]any{"value": v, "struct": h, "pointer": &h} {
			raw, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			shown["JSON of "+what] = string(raw)
			raw, _ = xml.Marshal(x) // it does not support maps
			shown["XML of "+what] = string(raw)
			var b bytes.Buffer
			_ = gob.NewEncoder(&b).Encode(x)
			shown["gob of "+what] = b.String()
			for name, make := range map[string]func(*bytes.Buffer) slog.Handler{
				"JSON": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
				"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			} {
				var b bytes.Buffer
				slog.New(make(&b)).With("with", x).WithGroup("g").Error("m", "a", x, slog.Group("h", "b", x))
				shown[name+" log of "+what] = b.String()
			}
		}
		for how, out := range shown {
			if strings.Contains(out, "canary") || strings.Contains(out, "cänary") || strings.Contains(out, fmt.Sprintf("%x", "canary")) {
				t.Errorf("%s shows the value", how)
			}
		}
		if !strings.Contains(shown["%v of value"], redact.Mark) || shown["JSON of value"] != `"[redacted]"` {
			t.Errorf("%q, %q", shown["%v of value"], shown["JSON of value"])
		}
	}
}

// panicked returns what a panic prints: the value and the stack.
func panicked(v any) (text string) {
	defer func() { text = fmt.Sprint(recover()) + string(debug.Stack()) }()
	panic(v)
}

func TestTheZeroValue(t *testing.T) {
	var v secret.Value
	if v.Reveal() != "" || v.String() != redact.Mark {
		t.Errorf("%q", v)
	}
}

package redact_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// written parses the output of a handler, one JSON object per line.
func written(t testing.TB, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, m)
	}
	return out
}

func TestTheHandlerIsOneOfSlog(t *testing.T) {
	var b bytes.Buffer
	err := slogtest.TestHandler(redact.NewHandler(slog.NewJSONHandler(&b, nil), nil), func() []map[string]any { return written(t, &b) })
	if err != nil {
		t.Error(err)
	}
}

type printed struct {
	Text string
	note string
}

// failed is an error that has only a text.
type failed struct{ text string }

func (f failed) Error() string { return f.text }

type panics struct{}

func (panics) Error() string { panic("canary") }

type talkative struct{ text string }

func (v talkative) LogValue() slog.Value {
	return slog.GroupValue(slog.String("said", v.text), slog.String("password", "x"))
}

// Every canary, in every attribute that code logs, by every handler.
func TestCanariesAreNotLogged(t *testing.T) {
	for _, canary := range canaries() {
		canary = strings.TrimSpace(canary)
		r := redact.New(nil)
		for name, inner := range map[string]func(*bytes.Buffer) slog.Handler{
			"JSON": func(b *bytes.Buffer) slog.Handler {
				return slog.NewJSONHandler(b, &slog.HandlerOptions{AddSource: true})
			},
			"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		} {
			var b bytes.Buffer
			log := slog.New(redact.NewHandler(trace.NewHandler(inner(&b)), nil))
			early := log.With("given before it was known", canary).WithGroup("g").With("in a group", "x "+canary)
			ctx := redact.With(trace.With(t.Context(), "hb_0mh8c1v2q_a7x2p1k9d4"), r)
			r.Add(secret.NewValue(canary))
			err := fmt.Errorf("call it: %w", &fs.PathError{Op: "open", Path: canary, Err: errors.New("denied")})
			early.ErrorContext(ctx, "the server said "+canary,
				"text", canary, "error", err, "typed", failed{canary}, "bytes", []byte(canary), "raw", json.RawMessage(quoteAll(canary)),
				"struct", printed{canary, canary}, "pointer", &printed{canary, canary}, "map", map[string]any{canary: []string{canary}}, "value", secret.NewValue(canary),
				"logs itself", talkative{canary}, slog.Group("h", "a", canary, slog.Group("i", "b", err)), "any map", map[any]any{1: canary}, "stringer", json.Number(canary),
				canary, "as a name")
			out := b.String()
			if strings.Contains(out, canary) || strings.Contains(out, quote(canary)) || strings.Contains(out, quotePlain(canary)) || strings.Contains(out, fmt.Sprintf("%q", canary)) {
				t.Errorf("%s: %q is logged: %s", name, canary, out)
			}
			if n := strings.Count(out, redact.Mark); n < 15 {
				t.Errorf("%s: only %d redacted: %s", name, n, out)
			}
			if !strings.Contains(out, "hb_0mh8c1v2q_a7x2p1k9d4") || !strings.Contains(out, "call it") {
				t.Errorf("%s: more than that is gone: %s", name, out)
			}
		}
	}
}

func quoteAll(s string) []byte { return []byte(`{"a":"` + quote(s) + `"}`) }

func TestWhatIsLogged(t *testing.T) {
	var b bytes.Buffer
	base := knowing("of-the-process", "271828")
	log := slog.New(redact.NewHandler(slog.NewJSONHandler(&b, nil), base))
	when := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	log.Info("of-the-process begins", "n", 12, "pin", 271828, "f", 1.5, "ok", true, "at", when, "took", 2*time.Second, "nil", nil,
		"token_usage", map[string]int{"prompt_tokens": 12}, "password", "x", "api_key", 5, "secret_name", "github", "html", []string{"a<b>&c"},
		"error", failed{"password=hunter2"}, "panics", panics{}, "channel", make(chan int) == nil, "empty_secret", "",
		slog.Group("credentials", "user", "u", "n", 1, slog.Group("more", "ok", true)), "source", &slog.Source{Function: "f"}, "lanes", []string{"a", "b"})
	got := written(t, &b)[0]
	for key, want := range map[string]any{
		"msg": "[redacted] begins", "n": 12.0, "pin": "[redacted]", "f": 1.5, "ok": true, "at": "2026-11-21T10:00:00Z", "took": 2e9, "nil": nil,
		"password": "[redacted]", "api_key": "[redacted]", "secret_name": "github", "error": "password=[redacted]", "panics": "[panicked]",
		"channel": false, "empty_secret": "",
	} {
		if value, ok := got[key]; !ok || value != want {
			t.Errorf("%s is %v, want %v", key, value, want)
		}
	}
	for key, want := range map[string]string{
		"token_usage": `{"prompt_tokens":12}`, "credentials": `{"more":{"ok":true},"n":"[redacted]","user":"[redacted]"}`, "html": `["a\u003cb\u003e\u0026c"]`,
		"lanes": `["a","b"]`,
	} {
		if raw, _ := json.Marshal(got[key]); string(raw) != want {
			t.Errorf("%s is %s, want %s", key, raw, want)
		}
	}
	if !strings.Contains(b.String(), "a<b>&c") {
		t.Errorf("HTML is escaped: %s", b.String())
	}
}

func TestTheRunsRedactorCountsBeforeTheProcesss(t *testing.T) {
	var b bytes.Buffer
	base := knowing("of-the-process")
	log := slog.New(redact.NewHandler(slog.NewTextHandler(&b, nil), base))
	run := redact.New(base)
	run.Add(secret.NewValue("of-the-run"))
	log.InfoContext(redact.With(t.Context(), run), "of-the-process of-the-run")
	log.InfoContext(t.Context(), "of-the-process of-the-run")
	lines := strings.Split(b.String(), "\n")
	if !strings.Contains(lines[0], `msg="[redacted] [redacted]"`) || !strings.Contains(lines[1], `msg="[redacted] of-the-run"`) {
		t.Errorf("%q", lines)
	}
}

func TestEnabledIsInners(t *testing.T) {
	h := redact.NewHandler(slog.NewTextHandler(&bytes.Buffer{}, &slog.HandlerOptions{Level: slog.LevelWarn}), nil)
	if h.Enabled(context.Background(), slog.LevelInfo) || !h.WithGroup("g").Enabled(context.Background(), slog.LevelError) {
		t.Error("the level is not inner's")
	}
}

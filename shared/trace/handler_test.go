package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/slogtest"
)

func TestContext(t *testing.T) {
	ctx := context.Background()
	if id, ok := From(ctx); ok || id != "" || Execution(ctx) != "" || Workspace(ctx) != "" {
		t.Error("an empty context carries something")
	}
	parent := WithWorkspace(WithExecution(With(ctx, "hb_1"), "e1"), "w1")
	child := WithExecution(parent, "e2")
	if id, ok := From(child); !ok || id != "hb_1" || Execution(child) != "e2" || Workspace(child) != "w1" {
		t.Errorf("child carries %q %q %q", id, Execution(child), Workspace(child))
	}
	if Execution(parent) != "e1" {
		t.Error("the child changed its parent")
	}
	if _, ok := From(With(parent, "")); ok {
		t.Error("the empty id counts as one")
	}
}

// TestHandlerIsAHandler runs the standard library's conformance suite.
func TestHandlerIsAHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return NewHandler(slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}

func TestHandlerAddsIDs(t *testing.T) {
	full := WithWorkspace(WithExecution(With(context.Background(), "op_1"), "e1"), "w1")
	const ids = `"trace_id":"op_1","execution_id":"e1","workspace":"w1"`
	for _, test := range []struct {
		name string
		ctx  context.Context
		log  func(context.Context, *slog.Logger)
		want string
	}{
		{"plain", full,
			func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "m", "a", 1) },
			`{"msg":"m","a":1,` + ids + `}`},
		{"nothing to add", context.Background(),
			func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "m", "a", 1) },
			`{"msg":"m","a":1}`},
		{"part of them", WithWorkspace(context.Background(), "w1"),
			func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "m") },
			`{"msg":"m","workspace":"w1"}`},
		{"attributes", full,
			func(ctx context.Context, l *slog.Logger) { l.With("a", 1).InfoContext(ctx, "m", "b", 2) },
			`{"msg":"m","a":1,"b":2,` + ids + `}`},
		{"groups", full,
			func(ctx context.Context, l *slog.Logger) {
				l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").InfoContext(ctx, "m", "c", 3)
			},
			`{"msg":"m","a":1,"g":{"b":2,"h":{"c":3}},` + ids + `}`},
		{"empty group", full,
			func(ctx context.Context, l *slog.Logger) { l.WithGroup("g").InfoContext(ctx, "m") },
			`{"msg":"m",` + ids + `}`},
		{"many attributes", full,
			func(ctx context.Context, l *slog.Logger) {
				l.InfoContext(ctx, "m", "a", 1, "b", 2, "c", 3, "d", 4, "e", 5, "f", 6)
			},
			`{"msg":"m","a":1,"b":2,"c":3,"d":4,"e":5,"f":6,` + ids + `}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			drop := func(groups []string, a slog.Attr) slog.Attr {
				if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
					return slog.Attr{}
				}
				return a
			}
			test.log(test.ctx, slog.New(NewHandler(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: drop}))))
			if got := string(bytes.TrimSpace(out.Bytes())); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestHandlerBranches: loggers derived from one another share nothing, however often they branch.
func TestHandlerBranches(t *testing.T) {
	var out bytes.Buffer
	base := slog.New(NewHandler(slog.NewJSONHandler(&out, nil))).WithGroup("g").With("a", 1)
	one, two := base.With("b", "one"), base.With("b", "two")
	three, four := base.WithGroup("three"), base.WithGroup("four")
	for want, l := range map[string]*slog.Logger{
		`"g":{"a":1,"b":"one","x":0}}`: one,
		`"g":{"a":1,"b":"two","x":0}}`: two,
		`"g":{"a":1,"three":{"x":0}}}`: three,
		`"g":{"a":1,"four":{"x":0}}}`:  four,
		`"msg":"m","g":{"a":1,"x":0}}`: base,
	} {
		out.Reset()
		l.Info("m", "x", 0)
		if !bytes.HasSuffix(bytes.TrimSpace(out.Bytes()), []byte(want)) {
			t.Errorf("got %s, want …%s", out.Bytes(), want)
		}
	}
}

func TestHandlerKeepsTheLevel(t *testing.T) {
	h := NewHandler(slog.NewJSONHandler(&bytes.Buffer{}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if h.Enabled(context.Background(), slog.LevelInfo) || !h.Enabled(context.Background(), slog.LevelWarn) {
		t.Error("the level of the inner handler is not kept")
	}
	if h.WithAttrs(nil) != h || h.WithGroup("") != h {
		t.Error("nothing added makes another handler")
	}
}

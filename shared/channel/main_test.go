package channel_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// class names the outbox's class of an error.
func class(err error) string {
	if err == nil {
		return "sent"
	}
	if _, ok := errors.AsType[*outbox.PermanentError](err); ok {
		return "permanent"
	}
	if _, ok := errors.AsType[*outbox.UncertainError](err); ok {
		return "uncertain"
	}
	if _, ok := errors.AsType[*outbox.DeadError](err); ok {
		return "dead"
	}
	return "again"
}

func is(text string) channel.Secret {
	return func(context.Context, db.Workspace) (secret.Value, error) { return secret.NewValue(text), nil }
}

func fails(err error) channel.Secret {
	return func(context.Context, db.Workspace) (secret.Value, error) { return secret.Value{}, err }
}

// serve starts a receiver that reads the whole request before it answers.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(read(h))
	t.Cleanup(s.Close)
	return s
}

func read(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(raw))
		h(w, r)
	}
}

// hijacked writes a text, not necessarily HTTP, and closes the connection.
func hijacked(w http.ResponseWriter, say string) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = io.WriteString(conn, say)
		_ = conn.Close()
	}
}

func guarded(t testing.TB, o outbound.Options) *outbound.Client {
	t.Helper()
	c, err := outbound.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// logger writes JSON lines to the buffer.
func logger(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewJSONHandler(b, nil)) }

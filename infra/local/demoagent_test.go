package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTheDemoAgentSignsInAgain after its token became invalid, and ends after it was terminated.
func TestTheDemoAgentSignsInAgain(t *testing.T) {
	signedIn, status := 0, "IDLE"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/heartbeat"):
			if signedIn == 2 {
				status = "TERMINATED"
			}
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/token"):
			signedIn++
			_, _ = w.Write([]byte(`{"token":"t"}`))
		default:
			_, _ = w.Write([]byte(`{"status":"` + status + `"}`))
		}
	}))
	defer api.Close()
	var logs bytes.Buffer
	a := newDemoAgent(api.URL, "admin", slog.New(slog.NewTextHandler(&logs, nil)))
	a.pause, a.idle = time.Millisecond, time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a.run(ctx, true)
	if ctx.Err() != nil || signedIn != 2 {
		t.Errorf("it has signed in %d times, %v", signedIn, ctx.Err())
	}
	if said := logs.String(); strings.Count(said, "was terminated: it ends") != 1 || strings.Contains(said, "level=WARN") {
		t.Errorf("it said %s", said)
	}
}

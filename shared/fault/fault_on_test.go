//go:build faults

package fault_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/fault"
)

// request is what a driver sees.
type request struct {
	Path               string
	Point, Effect, Key string
	PID                int
}

// driver answers every request with the status and returns what it was sent.
func driver(t *testing.T, status int, text string) *[]request {
	t.Helper()
	var got []request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := request{Path: r.URL.Path}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		got = append(got, req)
		http.Error(w, text, status)
	}))
	t.Cleanup(srv.Close)
	t.Setenv("LK_FAULT_URL", srv.URL)
	return &got
}

func TestPointGoesOn(t *testing.T) {
	got := driver(t, http.StatusOK, "")
	if err := fault.Point(t.Context(), "claimed", "task-1"); err != nil {
		t.Fatal(err)
	}
	want := request{Path: "/point", Point: "claimed", Key: "task-1", PID: os.Getpid()}
	if len(*got) != 1 || (*got)[0] != want {
		t.Errorf("driver got %+v, want %+v", *got, want)
	}
}

func TestPointFails(t *testing.T) {
	driver(t, http.StatusServiceUnavailable, "told to fail")
	err := fault.Point(t.Context(), "claimed", "task-1")
	if err == nil || !strings.Contains(err.Error(), "claimed: told to fail") {
		t.Errorf("error is %v, want the driver's", err)
	}
}

// TestEffectOutlivesItsContext: an effect that has happened is recorded even
// if the caller has been cancelled since.
func TestEffectOutlivesItsContext(t *testing.T) {
	got := driver(t, http.StatusOK, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fault.Effect(ctx, "sent", "mail-1")
	want := request{Path: "/effect", Effect: "sent", Key: "mail-1", PID: os.Getpid()}
	if len(*got) != 1 || (*got)[0] != want {
		t.Errorf("driver got %+v, want %+v", *got, want)
	}
}

func TestWithoutDriver(t *testing.T) {
	for name, url := range map[string]string{"none named": "", "gone away": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LK_FAULT_URL", url)
			if err := fault.Point(t.Context(), "claimed", "task-1"); err != nil {
				t.Error(err)
			}
			fault.Effect(t.Context(), "sent", "mail-1")
		})
	}
}

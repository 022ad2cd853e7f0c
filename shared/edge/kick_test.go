package edge

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

func TestKick(t *testing.T) {
	want := heartbeat.Tick{Workspace: ws, Slot: at(10, 30)}
	status, calls := http.StatusAccepted, 0
	awsAt(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		if r.URL.Path != "/2015-03-31/functions/keeper-heartbeat/invocations" || r.Header.Get("X-Amz-Invocation-Type") != "Event" {
			t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
		}
		payload, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if got, err := DecodeTick(payload); err != nil || got != want {
			t.Errorf("kicked with %s: %v", payload, err)
		}
		w.Header().Set("Connection", "close")
		w.WriteHeader(status)
	})
	s, _ := sandbox(t, nowhere)
	for range 2 {
		if err := s.Kick(t.Context(), want); err != nil {
			t.Error(err)
		}
	}
	status = http.StatusForbidden
	if err := s.Kick(t.Context(), want); err == nil || !strings.Contains(err.Error(), ws) {
		t.Errorf("a refused kick: %v", err)
	}
	if err := s.Kick(outbound.Bar(t.Context()), want); !errors.Is(err, outbound.ErrBarred) {
		t.Errorf("inside a transaction: %v", err)
	}
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
}

// KickTend invokes the function that sends messages, if one is named.
func TestKickTend(t *testing.T) {
	var invoked []string
	status := http.StatusAccepted
	awsAt(t, func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(r.Body)
		if err != nil || !isTend(payload) || r.Header.Get("X-Amz-Invocation-Type") != "Event" {
			t.Errorf("kicked with %s, %v: %v", payload, r.Header, err)
		}
		invoked = append(invoked, r.URL.Path)
		w.Header().Set("Connection", "close")
		w.WriteHeader(status)
	})
	s, _ := sandbox(t, nowhere)
	if err := s.KickTend(t.Context()); err != nil || len(invoked) > 0 {
		t.Errorf("without a function: %v, %v", invoked, err)
	}
	s, _ = sandbox(t, nowhere, "TEND_FUNCTION=keeper-operate")
	if err := s.KickTend(t.Context()); err != nil || !slices.Equal(invoked, []string{"/2015-03-31/functions/keeper-operate/invocations"}) {
		t.Errorf("with one: %v, %v", invoked, err)
	}
	status = http.StatusForbidden
	if err := s.KickTend(t.Context()); err == nil || !strings.Contains(err.Error(), "keeper-operate") {
		t.Errorf("a refused kick: %v", err)
	}
}

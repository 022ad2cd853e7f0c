//go:build faults

package approval_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// TestFailingAtEachPoint fails each named point once, for each kind of skill:
//
//	go test -tags faults -run TestFailingAtEachPoint ./shared/approval
func TestFailingAtEachPoint(t *testing.T) {
	fail := ""
	effects := map[string]int{}
	driver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var in struct{ Point, Effect, Key string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		if in.Effect != "" {
			effects[in.Key]++
		}
		if in.Point != "" && in.Point == fail {
			fail = ""
			http.Error(rw, "told to fail", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(driver.Close)
	t.Setenv("LK_FAULT_URL", driver.URL)
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		for _, name := range []string{"note", "post", "blind_post"} {
			for _, point := range []string{"outbox.claimed", "approval.begun", "approval.ran", "outbox.handled", "outbox.sent"} {
				e.Workspace = dbtest.NewWorkspace(t, e.DB)
				w := newWorld(t, e)
				id := w.approved(t, name, `{"text":"a"}`)
				fail = point
				_, _ = w.sender().Drain(t.Context(), w.Workspace, 10)
				fail = ""
				w.over()
				w.drain(t)
				a, row := w.get(t, id), w.row(t, id)
				open := name == "blind_post" && (point == "approval.begun" || point == "approval.ran")
				want, message := outbox.Sent, ""
				if open {
					want, message = outbox.Uncertain, cutOff
				}
				if a.Status != approval.Executed || a.Error != message || row.Status != want {
					t.Errorf("%s at %s: %s (%q), its row %s", name, point, a.Status, a.Error, row.Status)
				}
				n := effects[approval.Key(id)]
				if most := map[bool]int{true: 2, false: 1}[name == "post" && point == "approval.ran"]; n > most || n == 0 && !open {
					t.Errorf("%s at %s: %d effects", name, point, n)
				}
				if lines := len(w.actions(t, activity.Filter{Skill: name})); lines != 1 {
					t.Errorf("%s at %s: %d lines in the log", name, point, lines)
				}
			}
		}
	})
}

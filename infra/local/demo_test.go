package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// ofDemo reads a listing of the demo's workspace and returns its rows.
func ofDemo(t *testing.T, url, token, path string) (rows []map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Workspace-Id", string(workspace.Demo))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var page struct{ Items []map[string]any }
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
	return page.Items
}

// TestTheDemoOfTheEngineRoom: the first start makes a demo with something for each panel. Further starts
// neither double it nor make it anew, and one verb removes it.
func TestTheDemoOfTheEngineRoom(t *testing.T) {
	h := newHome(t, "DEMO=")
	d := h.dev()
	url, token, _ := d.started()
	says(t, d.out.String(), "/sign-in#workspace="+string(workspace.Demo)+"&token=", "demo remove")
	d.out.wait(t, "demo ready")
	count := map[string]int{}
	for path, least := range map[string]int{
		"objectives": 4, "automations": 3, "skills?enabled=false": 1, "heals": 1, "agents": 3, "budgets": 2, "memories": 5, "traces": 10,
		"threads": 4, "webhook-sources": 1, "webhook-endpoints": 1, "deliveries?direction=inbound": 3, "failures": 3, "lanes": 1, "projects": 1,
		"agent-tasks?reasonCode=dependency": 3, "agent-tasks?reasonCode=no_agent": 1, "agent-tasks?status=FAILED": 2, "agent-tasks?status=PAUSED": 1,
		"usage?by=day": 14, "usage?by=model": 4,
	} {
		rows := ofDemo(t, url, token, path)
		if len(rows) < least {
			t.Errorf("%s has %d rows, want %d at least", path, len(rows), least)
		}
		if count[path] = len(rows); path == "traces" || path == "memories" || strings.HasPrefix(path, "agent-tasks") || strings.HasPrefix(path, "usage") {
			delete(count, path) // they change as the demo goes on
		}
	}
	eventually(t, func() bool {
		waits := ofDemo(t, url, token, "approvals?status=pending")
		return len(waits) == 1 && waits[0]["skill"] == "refund_order"
	})
	if code := d.end(); code != exitDone || d.errs.String() != "" {
		t.Fatalf("exit code %d\n%s", code, d)
	}

	again := h.dev()
	url, token, _ = again.started()
	for path, was := range count {
		if rows := ofDemo(t, url, token, path); len(rows) != was && path != "lanes" && path != "heals" && path != "failures" {
			t.Errorf("after a restart %s has %d rows, %d before", path, len(rows), was)
		}
	}
	eventually(t, func() bool { // the lane is held again, by the same holder
		held := ofDemo(t, url, token, "lanes?limit=200")
		return len(held) > 0 && strings.Contains(again.out.String(), "next beat at")
	})
	if strings.Contains(again.out.String(), "demo ready") {
		t.Error("the demo was made anew")
	}
	says(t, h.must(exitDone, "demo", "remove").out, "The workspace of the demo is gone", "5 tasks were archived")
	says(t, h.must(exitDone, "demo", "remove").out, "There is no demo.")
	if out := h.must(exitDone, "workspaces").out; strings.Contains(out, "demo") {
		t.Errorf("the workspaces are\n%s", out)
	}
	says(t, h.must(exitDone, "objectives").out, "There are no objectives.")
	if code := again.end(); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, again)
	}

	last := h.dev()
	last.started()
	if code := last.end(); code != exitDone || strings.Contains(last.out.String(), "demo ready") {
		t.Errorf("exit code %d, and a demo that was removed came back:\n%s", code, last)
	}
}

// TestAnUnfinishedDemoIsMadeAnew: a start that ended while the demo was made leaves it to the next one.
func TestAnUnfinishedDemoIsMadeAnew(t *testing.T) {
	h := newHome(t, "DEMO=")
	d := h.devUntil("the ice cream shop opens")
	<-d.out.ended
	again := h.dev()
	url, token, _ := again.started()
	again.out.wait(t, "demo ready")
	if rows := ofDemo(t, url, token, "projects"); len(rows) != 1 {
		t.Errorf("there are %d projects", len(rows))
	}
	if code := again.end(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, again)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/app/seed"
	"github.com/lanekeeper/lanekeeper/shared/lane"
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
	d.out.wait(t, "demo ready after")
	// The courier is there before the shop, since only a shop that is not made yet has the next start look for it.
	if code, body := call(t, http.MethodGet, url+"/api/v1/agents/"+courierID, token, ""); code != http.StatusOK {
		t.Fatalf("the courier: %d %s", code, body)
	}
	if _, body := call(t, http.MethodGet, url+"/api/v1/me", token, ""); !strings.Contains(body, `"demo":true,"script":true`) {
		t.Errorf("the page is not told of a demo with a script: %s", body)
	}
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
	for _, row := range ofDemo(t, url, token, "usage?since="+time.Now().UTC().Format("2006-01-02")+"T00:00:00Z&by=operation") {
		if key := fmt.Sprint(row["key"]); strings.HasPrefix(key, "demo history") {
			t.Errorf("today has used %v, which never ran", row)
		}
	}
	if code := d.end(); code != exitDone || d.errs.String() != "" {
		t.Fatalf("exit code %d\n%s", code, d)
	}
	h.must(exitDone, "locks", "release", shopLane, "--workspace", string(workspace.Demo), "--reason", "test")

	again := h.dev()
	url, token, _ = again.started()
	for path, was := range count {
		if rows := ofDemo(t, url, token, path); len(rows) != was && path != "lanes" && path != "heals" && path != "failures" {
			t.Errorf("after a restart %s has %d rows, %d before", path, len(rows), was)
		}
	}
	eventually(t, func() bool { // the lane is held again, by the same holder
		return strings.Contains(h.must(exitDone, "locks", "--workspace", string(workspace.Demo)).out, shopHolder)
	})
	if strings.Contains(again.out.String(), "demo ready after") {
		t.Error("the demo was made anew")
	}
	eventually(t, func() bool { // the courier has made its tasks
		_, body := call(t, http.MethodGet, url+"/api/v1/agent-tasks?tags=demo&limit=200", token, "")
		return strings.Count(body, `"createdBy":"`) == 9
	})
	says(t, h.must(exitDone, "demo", "remove").out, "The workspace of the demo is gone", "9 tasks were archived", "Its agent “worker” is gone")
	says(t, h.must(exitDone, "demo", "remove").out, "There is no demo.")
	if out := h.must(exitDone, "workspaces").out; strings.Contains(out, "demo") {
		t.Errorf("the workspaces are\n%s", out)
	}
	says(t, h.must(exitDone, "objectives").out, "There are no objectives.")
	says(t, h.must(exitDone, "agents").out, "There are no agents.")
	if out := h.must(exitDone, "memories", "list").out; strings.Contains(out, "Demo:") {
		t.Errorf("the memories are\n%s", out)
	}
	if code := again.end(); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, again)
	}

	last := h.dev()
	last.started()
	if code := last.end(); code != exitDone || strings.Contains(last.out.String(), "demo ready after") {
		t.Errorf("exit code %d, and a demo that was removed came back:\n%s", code, last)
	}
}

// TestAnUnfinishedDemoIsMadeAnew: what a process has left that ended at any point of its start, the next one
// finishes: there is one demo in the end.
func TestAnUnfinishedDemoIsMadeAnew(t *testing.T) {
	for name, before := range map[string]func(h home){
		"while it is filled":    func(h home) { <-h.devUntil("the ice cream shop opens").out.ended },
		"before the first rows": begunOnly,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, "DEMO=")
			h.t = t
			before(h)
			again := h.dev()
			url, token, _ := again.started()
			says(t, again.out.String(), "/sign-in#workspace="+string(workspace.Demo)+"&token=", "4 objectives active")
			again.out.wait(t, "demo ready after")
			if rows := ofDemo(t, url, token, "projects"); len(rows) != 1 {
				t.Errorf("there are %d projects", len(rows))
			}
			if code := again.end(); code != exitDone {
				t.Errorf("exit code %d\n%s", code, again)
			}
		})
	}
}

// begunOnly leaves what a start has written that was killed before there was a default workspace.
func begunOnly(h home) {
	h.t.Helper()
	c := &console{name: "lanekeeper", environ: h.environ, out: io.Discard, err: io.Discard}
	cfg, err := c.load()
	if err != nil {
		h.t.Fatal(err)
	}
	d, err := open(h.t.Context(), cfg, 0, false) // the folder and an empty file
	if err == nil {
		err = d.Close()
	}
	if err == nil {
		_, err = bringUp(h.t.Context(), cfg, slog.New(slog.DiscardHandler))
	}
	if err == nil {
		d, err = open(h.t.Context(), cfg, migrations.Latest(), false)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	workspaces, err := workspace.New(d)
	if err == nil {
		err = wantShop(h.t.Context(), d, workspaces)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		h.t.Fatal(err)
	}
}

// TestOneProcessMakesTheDemo: whoever makes or removes the demo holds a lane, for which others wait. A database
// that was migrated before the first start has a demo, too.
func TestOneProcessMakesTheDemo(t *testing.T) {
	h := newHome(t, "DEMO=")
	says(t, h.must(exitDone, "migrate").out, "does not exist yet")
	take := func() (free func()) {
		c := &console{name: "lanekeeper", environ: h.environ, out: io.Discard, err: io.Discard}
		core, _, err := c.operate(t.Context(), workspace.Default)
		if err != nil {
			t.Fatal(err)
		}
		lanes, err1 := lane.New(core.DB)
		workspaces, err2 := workspace.New(core.DB)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		hold, err := lanes.Acquire(t.Context(), lane.Request{Workspace: workspace.Default, Lane: seed.Lane, Holder: "another process"})
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			eventually(t, func() bool {
				is, err := lanes.Peek(t.Context(), workspace.Default, seed.Lane)
				return err == nil && is.WantedAt != nil
			})
			if name, err := shopIs(t.Context(), workspaces); err != nil || name == "" || name == shopBegun {
				t.Errorf("the workspace is %q, %v", name, err)
			}
			if err := errors.Join(lanes.Release(t.Context(), hold), core.DB.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	free := take()
	d := h.dev()
	free()
	d.out.wait(t, "demo ready after")
	if code := d.end(); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, d)
	}
	free = take()
	removed := make(chan result)
	go func() { removed <- h.do("demo", "remove") }()
	free()
	if is := <-removed; is.code != exitDone || !strings.Contains(is.out, "is gone") {
		t.Errorf("it answers %+v", is)
	}
}

// TestTheLaneOfTheShopOutlivesFailures: only a lane that somebody has released is given up.
func TestTheLaneOfTheShopOutlivesFailures(t *testing.T) {
	for _, over := range []int{http.StatusConflict, http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			answers := []int{500, 200, 503, 200, 429, over, 200}
			s := &shop{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				answered := answers[0]
				answers = answers[1:]
				w.WriteHeader(answered)
				_, _ = fmt.Fprintf(w, `{"status": %d}`, answered)
			})}
			s.hold(t.Context())
			if len(answers) != 1 {
				t.Errorf("it ended with %v to come", answers)
			}
		})
	}
}

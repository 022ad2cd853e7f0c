package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// coordinatorStatus is the state of the coordinator as clients read it.
type coordinatorStatus struct {
	Active              bool
	InstanceID, WokenBy string
	Workspaces          int
	LastHeartbeat       *time.Time
	CycleCount          int
	Stats               struct{ PendingTasks, RunningTasks, HealthyAgents, StaleAgents int }
}

func TestTheCoordinatorByHand(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var before, after coordinatorStatus
		w.must(t, 200, "GET", "/api/v1/coordinator/status", "", &before)
		if before.Active || before.CycleCount != 0 || before.LastHeartbeat != nil || before.Workspaces != 1 {
			t.Errorf("before the first cycle: %+v", before)
		}
		agent := ids()
		w.must(t, 201, "PUT", "/api/v1/agents/"+agent, `{"name":"scout"}`, nil)
		w.must(t, 200, "POST", "/api/v1/agents/"+agent+"/heartbeat", `{"status":"IDLE"}`, nil)
		w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"first"}`, nil)
		w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"second"}`, nil)
		var did struct {
			WorkspaceID                           string
			Assigned, PendingTasks, HealthyAgents int
		}
		w.must(t, 200, "POST", "/api/v1/coordinator/recover", `{"workspaceId":"`+string(w.Workspace)+`"}`, &did)
		if did.Assigned != 1 || did.PendingTasks != 1 || did.HealthyAgents != 1 || did.WorkspaceID != string(w.Workspace) {
			t.Errorf("the cycle: %+v", did)
		}
		w.must(t, 200, "GET", "/api/v1/coordinator/status", "", &after)
		if !after.Active || after.CycleCount != 1 || after.LastHeartbeat == nil || after.InstanceID != "test" || after.WokenBy != "hand" || after.Stats.PendingTasks != 1 {
			t.Errorf("after it: %+v", after)
		}
		w.refused(t, 404, "not_found", "POST", "/api/v1/coordinator/recover", `{"workspaceId":"`+ids()+`"}`)
		w.refused(t, 404, "not_found", "GET", "/api/v1/coordinator/logs?workspace="+ids(), "")
		var logs struct{ Items []any }
		w.must(t, 200, "GET", "/api/v1/coordinator/logs?level=ERROR&limit=5&workspace="+string(w.Workspace), "", &logs)
		if len(logs.Items) != 0 {
			t.Errorf("it has logged %v", logs.Items)
		}
		hold, err := w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Coordinator, Holder: "another"})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.must(t, 202, "POST", "/api/v1/coordinator/recover", "", nil); !strings.Contains(string(got.body), `"busy":true`) {
			t.Errorf("while another cycle runs: %s", got.body)
		}
		if kicks, _, err := w.Coordinator.Outbox.List(t.Context(), w.Workspace, outbox.Filter{Topic: coordinate.KickTopic, Limit: 9}); err != nil || len(kicks) != 1 || kicks[0].Status != outbox.Ready {
			t.Errorf("no further cycle will run: %+v, %v", kicks, err)
		}
		if err := w.Lanes.Release(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCommandsToTheCoordinator(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		agent := ids()
		w.must(t, 201, "PUT", "/api/v1/agents/"+agent, `{"name":"scout"}`, nil)
		w.must(t, 200, "POST", "/api/v1/agents/"+agent+"/heartbeat", `{"status":"IDLE"}`, nil)
		var made struct{ ID string }
		w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"first"}`, &made)
		w.must(t, 200, "POST", "/api/v1/coordinator/recover", "", nil)
		const commands = "/api/v1/coordinator/commands"
		for _, c := range []struct {
			body string
			want int
		}{
			{`{"command":"dance"}`, 422}, {`{"command":"reassign_task"}`, 422}, {`{"command":"recover","taskId":"` + made.ID + `"}`, 422},
			{`{"command":"reassign_task","taskId":"` + ids() + `"}`, 404}, {`{"command":"drain_agent","agentId":"` + ids() + `"}`, 404},
			{`{"command":"pause_agent","agentId":"` + agent + `","reason":"it is odd"}`, 202}, {`{"command":"reassign_task","taskId":"` + made.ID + `"}`, 202},
		} {
			if got := w.call(t, "POST", commands, admin, c.body); got.status != c.want {
				t.Errorf("%s: %d %s", c.body, got.status, got.body)
			}
		}
		w.must(t, 200, "POST", "/api/v1/coordinator/recover", "", nil)
		var is struct {
			CoordinatorEnabled bool
			OpenTasks          int
		}
		w.must(t, 200, "GET", "/api/v1/agents/"+agent, "", &is)
		var task struct{ Status string }
		w.must(t, 200, "GET", "/api/v1/agent-tasks/"+made.ID, "", &task)
		if is.CoordinatorEnabled || is.OpenTasks != 0 || task.Status != "PENDING" {
			t.Errorf("the agent is %+v, the task %+v", is, task)
		}
	})
}

// The state spans the workspaces that a person administers, and no others.
func TestTheCoordinatorOfSeveralWorkspaces(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	mine, others := dbtest.NewWorkspace(t, e.DB), dbtest.NewWorkspace(t, e.DB)
	w := newWorld(t, e, func(d *api.Deps) {
		d.Auth = auth.New(func(context.Context, string) (auth.Principal, error) {
			return auth.Principal{Workspace: e.Workspace, Kind: auth.User, ID: "ada", Role: auth.Admin, Memberships: []auth.Membership{
				{Workspace: e.Workspace, Role: auth.Admin}, {Workspace: mine, Role: auth.Owner}, {Workspace: others, Role: auth.Member},
			}}, nil
		})
	})
	for _, ws := range []db.Workspace{e.Workspace, mine, others} {
		if _, err := w.Coordinator.Cycle(t.Context(), ws, "test"); err != nil {
			t.Fatal(err)
		}
	}
	var is coordinatorStatus
	w.must(t, 200, "GET", "/api/v1/coordinator/status", "", &is)
	if is.Workspaces != 2 || is.CycleCount != 2 {
		t.Errorf("%+v", is)
	}
	w.must(t, 200, "POST", "/api/v1/coordinator/recover", `{"workspaceId":"`+string(mine)+`"}`, nil)
	w.refused(t, 404, "not_found", "POST", "/api/v1/coordinator/recover", `{"workspaceId":"`+string(others)+`"}`)
}

func TestTheCoordinatorsHealth(t *testing.T) {
	type health struct {
		Status, Database, Gateway string
		Coordinator               *struct {
			Active     bool
			LastCycle  *time.Time
			CycleCount int
		}
	}
	of := func(w *world, token string) (status int, h health) {
		got := w.call(t, http.MethodGet, "/health/coordinator", token, "")
		if err := json.Unmarshal(got.body, &h); err != nil {
			t.Fatal(err)
		}
		return got.status, h
	}
	w := onOne(t)
	if status, h := of(w, member); status != 200 || h.Status != "degraded" || h.Coordinator == nil || h.Coordinator.Active || h.Gateway != "disabled" {
		t.Errorf("before the first cycle: %d %+v", status, h)
	}
	if _, err := w.Coordinator.Cycle(t.Context(), w.Workspace, "test"); err != nil {
		t.Fatal(err)
	}
	if status, h := of(w, member); status != 200 || h.Status != "healthy" || !h.Coordinator.Active || h.Coordinator.CycleCount != 1 || h.Coordinator.LastCycle == nil || h.Database != "connected" {
		t.Errorf("after it: %d %+v", status, h)
	}
	if status, h := of(w, ""); status != 200 || h.Coordinator != nil || h.Database != "" {
		t.Errorf("without a token: %d %+v", status, h)
	}
	gone := newWorld(t, w.Env, func(d *api.Deps) { d.Gateway = func(context.Context) error { return errors.New("refused") } })
	if status, h := of(gone, member); status != 200 || h.Status != "degraded" || h.Gateway != "unreachable" {
		t.Errorf("without the gateway: %d %+v", status, h)
	}
	if status, h := of(onOne(t, down(t)), member); status != 503 || h.Status != "unhealthy" || h.Database != "down" || h.Coordinator.Active {
		t.Errorf("without the database: %d %+v", status, h)
	}
}

package skill_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func ids() string { return uuid.Must(uuid.NewV7()).String() }

func TestQueryActivityReadsItsOwnWorkspace(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		log, err1 := activity.New(e.DB, ids)
		lanes, err2 := lane.New(e.DB)
		ahead := 0 * time.Hour
		query, err3 := skill.QueryActivity(log, func() time.Time { return time.Now().Add(ahead) })
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		k, _ := newSet(t, query).Find("query_activity")
		id := trace.NewSource(time.Now, rand.Reader).New(trace.Heartbeat)
		record := func(ws db.Workspace, skill string, status activity.Status) {
			err := log.Write(t.Context(), ws, activity.Entry{
				Agent: "a", Surface: trace.Heartbeat, Skill: skill, Status: status, Error: "why", Trace: id, Output: []byte(`"secret"`),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 25 {
			record(e.Workspace, fmt.Sprintf("s%d", i%5), []activity.Status{activity.Success, activity.Error}[i%2])
		}
		record(dbtest.NewWorkspace(t, e.DB), "elsewhere", activity.Success)

		actions := func(arguments string) []string {
			t.Helper()
			if v := k.Check(t.Context(), []byte(arguments)); len(v) > 0 {
				t.Fatal(v)
			}
			var out any
			request := lane.Request{Workspace: e.Workspace, Lane: "heartbeat", Holder: "test"}
			err := lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
				return lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) (err error) {
					out, err = k.Run(ctx, tx, skill.Call{Workspace: e.Workspace, Arguments: []byte(arguments)})
					return err
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), "secret") || strings.Contains(string(raw), "elsewhere") {
				t.Errorf("%s tells %s", arguments, raw)
			}
			var read struct {
				Actions []struct {
					At      time.Time
					Skill   string
					Status  string
					TraceID string `json:"traceId"`
				}
			}
			if err := json.Unmarshal(raw, &read); err != nil || read.Actions == nil {
				t.Fatalf("%s: %v", raw, err)
			}
			names := []string{}
			for i, a := range read.Actions {
				names = append(names, a.Skill)
				if a.TraceID != string(id) || i > 0 && a.At.After(read.Actions[i-1].At) {
					t.Errorf("action %d is %+v", i, a)
				}
			}
			return names
		}
		for arguments, want := range map[string]int{
			`{}`: 20, `{"limit": 3}`: 3, `{"limit": 50}`: 25, `{"skill": "s1"}`: 5, `{"status": "error"}`: 12,
			`{"skill": "s1", "status": "error"}`: 3, `{"skill": "nothing"}`: 0, `{"traceId": "` + string(id) + `", "limit": 50}`: 25, `{"traceId": "x"}`: 0,
		} {
			if got := actions(arguments); len(got) != want {
				t.Errorf("%s tells %d actions, want %d", arguments, len(got), want)
			}
		}
		ahead = 2 * time.Hour
		if got := actions(`{"hours": 1}`); len(got) != 0 {
			t.Errorf("two hours later the last hour tells %d actions", len(got))
		}
		if got := actions(`{"hours": 3}`); len(got) != 20 {
			t.Errorf("two hours later the last three hours tell %d actions", len(got))
		}
	})
}

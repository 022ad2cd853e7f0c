package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// skills returns the skills of tasks, and lanes to run them in.
func (w world) skills(t testing.TB) (*skill.Set, *lane.Store) {
	t.Helper()
	secrets, err := secret.New(w.DB, secret.NewKeyFile(filepath.Join(t.TempDir(), "key")))
	if err != nil {
		t.Fatal(err)
	}
	all, err1 := task.Skills(w.s, secrets)
	set, err2 := skill.NewSet(all...)
	lanes, err3 := lane.New(w.DB)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return set, lanes
}

func TestSkills(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		set, lanes := w.skills(t)
		if err := set.Sound(); err != nil {
			t.Fatal(err)
		}
		key := ""
		use := func(name, arguments string, untrusted bool) (out map[string]any, outside bool, err error) {
			k, _ := set.Find(name)
			call := skill.Call{Workspace: w.Workspace, Agent: "flowpilot", Key: key, Arguments: []byte(arguments), Untrusted: untrusted}
			if call, err = k.Ready(t.Context(), time.Minute, call); err != nil {
				return nil, false, err
			}
			err = lanes.Do(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "test", Holder: "test"}, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
				return lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
					value, err := k.Run(ctx, tx, call)
					_, outside = value.(skill.Untrusted)
					if raw, wrong := json.Marshal(value); wrong == nil {
						_ = json.Unmarshal(raw, &out)
					}
					return err
				})
			})
			return out, outside, err
		}
		first, _, err := use("create_task", `{"title":"Look","inputContext":{"shop":1}}`, false)
		if err != nil {
			t.Fatal(err)
		}
		id := first["taskId"].(string)
		made := w.get(t, id)
		if made.CreatedBy != "flowpilot" || made.Untrusted || made.Priority != 5 || string(made.Input) != `{"shop":1}` {
			t.Errorf("made %+v", made)
		}
		key = "the same call"
		again, _, err := use("create_task", `{"title":"Once"}`, false)
		same, _, wrong := use("create_task", `{"title":"Once"}`, false)
		key = "another"
		other, _, bad := use("create_task", `{"title":"Once"}`, false)
		if err := errors.Join(err, wrong, bad); err != nil || again["taskId"] != same["taskId"] || other["taskId"] == same["taskId"] {
			t.Errorf("repeated calls created %v, %v and %v: %v", again, same, other, err)
		}
		key = ""
		second, _, err := use("create_task", `{"title":"Then","dependsOn":["`+id+`"]}`, true)
		if err != nil || !w.get(t, second["taskId"].(string)).Untrusted {
			t.Errorf("%v, %v", second, err)
		}
		if told, outside, err := use("get_task", `{"taskId":"`+id+`"}`, false); err != nil || outside || told["status"] != "PENDING" || told["title"] != "Look" {
			t.Errorf("%v %v %v", told, outside, err)
		}
		if _, outside, err := use("get_task", `{"taskId":"`+second["taskId"].(string)+`"}`, false); err != nil || !outside {
			t.Errorf("a task with text from outside: %v %v", outside, err)
		}
		for _, wrong := range []struct{ name, arguments, says string }{
			{"create_task", `{"title":" "}`, "title"}, {"create_task", `{"title":"x","dependsOn":["` + ids() + `"]}`, "dependsOn"},
			{"create_task", `{"title":"x","dependsOn":["x"]}`, "not an id"},
			{"create_task", `{"title":"x","projectId":"` + ids() + `"}`, "projectId"}, {"get_task", `{"taskId":"` + ids() + `"}`, "no such task"},
			{"get_task", `{"taskId":"x"}`, "id of a task"},
		} {
			_, _, err := use(wrong.name, wrong.arguments, false)
			if refusal, ok := errors.AsType[*skill.RefusalError](err); !ok || !strings.Contains(refusal.Error(), wrong.says) {
				t.Errorf("%s %s: %v", wrong.name, wrong.arguments, err)
			}
		}
		k, _ := set.Find("create_task")
		undo := func(id string) (undone bool) {
			if err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
				undone, err = k.Undo(ctx, tx, nil, []byte(`{"taskId":"`+id+`"}`))
				return err
			}); err != nil {
				t.Error(err)
			}
			return undone
		}
		if is := second["taskId"].(string); !undo(is) || !w.get(t, is).Cancelled || undo(is) {
			t.Error("a task that nobody has touched is not taken back once")
		}
		w.assign(t, id)
		if undo(id) || w.get(t, id).Cancelled {
			t.Error("a task that an agent has is taken back")
		}
	})
}

// TestWhatComesFromOutsideIsToldInNoThreadOfPeople: a rule of a webhook may open other threads with it.
func TestWhatComesFromOutsideIsToldInNoThreadOfPeople(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		set, lanes := w.skills(t)
		var told []string
		w.s.Converse = func(_ context.Context, _ lane.Tx, with task.Conversation, _ string) (string, error) {
			told = append(told, with.Channel)
			return "", nil
		}
		for _, row := range []struct {
			channel   string
			untrusted bool
			refused   bool
		}{{"operate", true, true}, {"email", true, false}, {"operate", false, false}} {
			k, _ := set.Find("create_task")
			call := skill.Call{Workspace: w.Workspace, Agent: "flowpilot", Key: row.channel, Untrusted: row.untrusted, Rule: true,
				Arguments: []byte(`{"title":"T","thread":{"channel":"` + row.channel + `","address":"a","message":"Do it."}}`)}
			call, err := k.Ready(t.Context(), time.Minute, call)
			if err != nil {
				t.Fatal(err)
			}
			request := lane.Request{Workspace: w.Workspace, Lane: "test", Holder: "test"}
			err = lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
				return lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
					_, err := k.Run(ctx, tx, call)
					return err
				})
			})
			if _, refused := errors.AsType[*skill.RefusalError](err); refused != row.refused || err != nil && !refused {
				t.Errorf("%+v: %v", row, err)
			}
		}
		if want := []string{"email", "operate"}; !slices.Equal(told, want) {
			t.Errorf("told in %q, want %q", told, want)
		}
	})
}

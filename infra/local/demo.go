package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/seed"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// demoVerb removes the demo: its workspace with all that is in it, and the demo content of the default
// workspace.
func demoVerb(*flag.FlagSet) action {
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) != 1 || args[0] != "remove" {
			return misused("demo takes one word: remove")
		}
		core, ask, err := c.operate(ctx, workspace.Default)
		if err != nil {
			return err
		}
		defer core.DB.Close()
		lanes, err := lane.New(core.DB)
		if err != nil {
			return err
		}
		var did removed
		err = holdDemo(ctx, lanes, demoPatience, func(ctx context.Context, _ *lane.Hold) error {
			if err := did.shop(ctx, core); err != nil {
				return err
			}
			if err := did.starter(ctx, ask.ask); err != nil {
				return err
			}
			if did.Courier, err = leaves(ctx, core, ask.ask, courierID, shopBy, false); err != nil {
				return err
			}
			did.Agent, err = leaves(ctx, core, ask.ask, seed.DemoAgent, seed.CreatedBy, true)
			return err
		})
		if busy, is := errors.AsType[*lane.BusyError](err); is {
			return &hinted{fmt.Errorf("the demo is just being made or removed by %s", busy.Info.Holder),
				"Try again when that has ended. `" + c.name + " locks` shows until when the lane demo is held."}
		}
		if err != nil {
			return err
		}
		return c.answer(did, func(w io.Writer) { did.print(w, c.name) })
	}
}

// shop removes the workspace of the demo.
func (did *removed) shop(ctx context.Context, core *app.Core) error {
	workspaces, err := workspace.New(core.DB)
	if err != nil {
		return err
	}
	if name, err := shopIs(ctx, workspaces); err != nil || name == "" {
		return err
	}
	in, err := newOperator(ctx, core, workspace.Demo)
	if err != nil {
		return err
	}
	did.Workspace = true
	return clearDemo(ctx, in.ask, func(ctx context.Context) error { return deleteShop(ctx, in.ask) })
}

// removed says what was removed.
type removed struct {
	Workspace bool `json:"workspace"` // the workspace of the demo, with all that was in it
	Content   int  `json:"content"`   // objectives, automations, skills and memories of the default workspace
	Archived  int  `json:"archived"`  // tasks, which are kept
	Agent     end  `json:"agent"`     // what has become of the agent of the default workspace's demo content
	Courier   end  `json:"courier"`   // and of its agent that pulls
}

// end is the state of an agent after the removal.
type end string

const (
	endNone  end = ""
	endGone  end = "removed"
	endOver  end = "terminated" // and it stays listed, because a task of the user's names it
	endDrain end = "draining"   // it finishes a task of the user's first
)

func (did removed) print(w io.Writer, name string) {
	if did == (removed{}) {
		fmt.Fprintln(w, "There is no demo.")
		return
	}
	if did.Workspace {
		fmt.Fprintln(w, "The workspace of the demo is gone, with all that was in it.")
	}
	if did.Content+did.Archived > 0 {
		fmt.Fprintf(w, "The default workspace has lost %s of the demo, and %s archived. "+
			"The record of what ran stays there.\n",
			count(int64(did.Content), "row"), count(int64(did.Archived), "task")+were(did.Archived))
	}
	if did.Courier == endGone {
		fmt.Fprintln(w, "Its agent “courier” is gone.")
	}
	switch did.Agent {
	case endNone:
		return
	case endGone:
		fmt.Fprintln(w, "Its agent “worker” is gone.")
	case endOver:
		fmt.Fprintln(w, "Its agent “worker” has ended. "+
			"It stays in the list of agents, because it has worked on a task of yours.")
	case endDrain:
		fmt.Fprintln(w, "Its agent “worker” finishes the task of yours that it is at, and then ends.")
	}
	fmt.Fprintf(w, "Your own tasks need another one: %s %s\n", name, registerWorker)
}

func were(n int) string {
	if n == 1 {
		return " was"
	}
	return " were"
}

// demoPatience is how long the work of the demo may take to end.
const demoPatience = 30 * time.Second

// clearDemo deletes the workspace of the demo by remove. It first stops the work in the workspace and
// releases its lanes.
func clearDemo(ctx context.Context, ask asker, remove func(context.Context) error) error {
	stop := map[string]string{"scope": "workspace", "reason": "The demo is being removed"}
	if _, err := ask(ctx, http.MethodPost, "/api/v1/kill-switches", stop, &struct{}{}); err != nil {
		return err
	}
	for end := time.Now().Add(demoPatience); ; {
		var held struct {
			Items []struct{ Lane string }
		}
		if _, err := ask(ctx, http.MethodGet, "/api/v1/lanes?limit=200", nil, &held); err != nil {
			return err
		}
		for _, l := range held.Items {
			path := "/api/v1/lanes/" + url.PathEscape(l.Lane) + "/force-release"
			if _, err := ask(ctx, http.MethodPost, path, map[string]string{"reason": "The demo is being removed"}, &struct{}{}); err != nil {
				return err
			}
		}
		err := remove(ctx)
		if !atWork(err) || time.Now().After(end) {
			return err
		}
		timer := time.NewTimer(200 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// deleteShop asks for the deletion of the workspace of the demo.
func deleteShop(ctx context.Context, ask asker) error {
	_, err := ask(ctx, http.MethodDelete, "/api/v1/workspaces/"+string(workspace.Demo), nil, &struct{}{})
	return err
}

// atWork reports whether a workspace was not deleted because something works in it.
func atWork(err error) bool {
	refused, is := errors.AsType[*refusedError](err)
	return is && refused.Status == http.StatusConflict || errors.Is(err, workspace.ErrAtWork)
}

// leaves terminates an agent of the demo content, at once or after its tasks, and removes it unless a task of
// the user names it.
func leaves(ctx context.Context, core *app.Core, ask asker, id, by string, graceful bool) (as end, err error) {
	var is struct{ Status, CreatedBy string }
	path := "/api/v1/agents/" + id
	_, err = ask(ctx, http.MethodGet, path, nil, &is)
	if refusedWith(err, http.StatusNotFound) {
		return endNone, nil
	}
	if err != nil || is.CreatedBy != by {
		return endNone, err
	}
	if is.Status != string(agent.Terminated) {
		body := map[string]any{"reason": "The demo is removed", "graceful": graceful}
		if _, err := ask(ctx, http.MethodPost, path+"/terminate", body, &is); err != nil {
			return endNone, err
		}
		as = endOver
		if is.Status != string(agent.Terminated) {
			as = endDrain
		}
	}
	gone, err := seed.Forget(ctx, core, id, by)
	if gone {
		as = endGone
	}
	return as, err
}

// starter removes the content that [seed.Seed] has added to the default workspace. It cancels and archives
// tasks, because tasks and the records of past work are never deleted.
func (did *removed) starter(ctx context.Context, ask asker) error {
	type row struct {
		ID, Name, Content, Status, CreatedBy string
		Config                               json.RawMessage
	}
	was := seed.Names()
	lists := []struct {
		path string
		ours func(row) bool
	}{
		{"objectives", func(r row) bool { return was.Objectives[r.ID] }},
		{"automations", func(r row) bool { return was.Automations[r.Name] && r.CreatedBy == seed.CreatedBy }},
		{"skills", func(r row) bool {
			return was.Skills[r.Name] && bytes.Contains(r.Config, []byte(`"https://shop.invalid/`))
		}},
		{"memories", func(r row) bool { return was.Memories[r.Content] }},
	}
	each := func(path string, do func(row) error) error {
		for cursor := ""; ; {
			var page struct {
				Items      []row
				NextCursor string
			}
			if _, err := ask(ctx, http.MethodGet, path+"limit=200&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
				return err
			}
			for _, r := range page.Items {
				if err := do(r); err != nil {
					return err
				}
			}
			if cursor = page.NextCursor; cursor == "" {
				return nil
			}
		}
	}
	for _, l := range lists {
		err := each("/api/v1/"+l.path+"?", func(r row) error {
			if !l.ours(r) {
				return nil
			}
			if r.ID == "" || l.path == "skills" {
				r.ID = r.Name
			}
			if _, err := ask(ctx, http.MethodDelete, "/api/v1/"+l.path+"/"+url.PathEscape(r.ID), nil, &struct{}{}); err != nil {
				return err
			}
			did.Content++
			return nil
		})
		if err != nil {
			return err
		}
	}
	return each("/api/v1/agent-tasks?tags="+seed.Tag+"&", func(r row) error {
		if r.CreatedBy != seed.CreatedBy && r.CreatedBy != shopBy || r.Status == "ARCHIVED" {
			return nil
		}
		path := "/api/v1/agent-tasks/" + r.ID
		if !strings.Contains("COMPLETED FAILED", r.Status) {
			_, err := ask(ctx, http.MethodPost, path+"/cancel", map[string]string{"reason": "The demo is removed"}, &struct{}{})
			if refused, is := errors.AsType[*refusedError](err); err != nil && (!is || refused.Status != http.StatusConflict) {
				return err
			}
		}
		if _, err := ask(ctx, http.MethodPost, path+"/archive", map[string]any{}, &struct{}{}); err != nil {
			return err
		}
		did.Archived++
		return nil
	})
}

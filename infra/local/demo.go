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

	"github.com/lanekeeper/lanekeeper/shared/app/seed"
	"github.com/lanekeeper/lanekeeper/shared/db"
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
		var did removed
		workspaces, err := workspace.New(core.DB)
		if err == nil {
			_, err = workspaces.Get(ctx, workspace.Demo)
			did.Workspace = err == nil
		}
		if err != nil && !errors.Is(err, db.ErrNoRows) {
			return err
		}
		if did.Workspace {
			in, err := newOperator(ctx, core, workspace.Demo)
			if err == nil {
				err = clearDemo(ctx, in.ask)
			}
			if err != nil {
				return err
			}
		}
		if err := did.starter(ctx, ask.ask); err != nil {
			return err
		}
		return c.answer(did, func(w io.Writer) { did.print(w, c.name) })
	}
}

// removed says what was removed.
type removed struct {
	Workspace bool `json:"workspace"` // the workspace of the demo, with all that was in it
	Content   int  `json:"content"`   // objectives, automations, skills and memories of the default workspace
	Archived  int  `json:"archived"`  // tasks, which are kept
}

func (did removed) print(w io.Writer, name string) {
	if did == (removed{}) {
		fmt.Fprintln(w, "There is no demo.")
		return
	}
	if did.Workspace {
		fmt.Fprintln(w, "The workspace of the demo is gone, with all that was in it.")
	}
	if did.Content+did.Archived > 0 {
		fmt.Fprintf(w, "The default workspace has lost %s of the demo; %s archived, and what ran stays in its activity.\n"+
			"Its agent “worker” stays: it does your tasks. `%s agents terminate %s` ends it.\n",
			count(int64(did.Content), "row"), count(int64(did.Archived), "task")+were(did.Archived), name, seed.DemoAgent)
	}
}

func were(n int) string {
	if n == 1 {
		return " was"
	}
	return " were"
}

// demoPatience is how long the work of the demo may take to end.
const demoPatience = 30 * time.Second

// clearDemo deletes the workspace of the demo. Whatever works in it is stopped, and its lanes are released.
func clearDemo(ctx context.Context, ask asker) error {
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
		_, err := ask(ctx, http.MethodDelete, "/api/v1/workspaces/"+string(workspace.Demo), nil, &struct{}{})
		if refused, busy := errors.AsType[*refusedError](err); !busy || refused.Status != http.StatusConflict || time.Now().After(end) {
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

// starter removes from the default workspace what [seed.Seed] has added. Tasks are never deleted: they are
// cancelled and archived.
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
		if r.CreatedBy != seed.CreatedBy || r.Status == "ARCHIVED" {
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

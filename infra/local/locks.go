package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

func locks(flags *flag.FlagSet) action {
	ws := workspaceFlag(flags)
	reason := flags.String("reason", "", "why a hold is ended by force: `TEXT` for the activity log")
	return func(ctx context.Context, c *console, args []string) error {
		switch {
		case len(args) == 0 && *reason == "":
			return c.listLocks(ctx, db.Workspace(*ws))
		case len(args) == 2 && args[0] == "release":
			if *reason == "" {
				return misused("say why: locks release %s --reason TEXT", clean(args[1]))
			}
			return c.releaseLock(ctx, db.Workspace(*ws), args[1], *reason)
		}
		return misused("locks takes nothing, or: release LANE --reason TEXT")
	}
}

func (c *console) listLocks(ctx context.Context, ws db.Workspace) error {
	core, ask, err := c.operate(ctx, ws)
	if err != nil {
		return err
	}
	defer core.DB.Close()
	var held struct {
		Items []struct {
			Lane        string `json:"lane"`
			Holder      string `json:"holder"`
			AgeMS       int64  `json:"ageMs"`
			RemainingMS int64  `json:"remainingMs"`
			WantedBy    string `json:"wantedBy"`
		} `json:"items"`
		NextCursor *string `json:"nextCursor"`
	}
	all, err := ask.ask(ctx, http.MethodGet, "/api/v1/lanes?limit=200", nil, &held)
	if err != nil {
		return err
	}
	return c.answer(all, func(w io.Writer) {
		if len(held.Items) == 0 {
			fmt.Fprintln(w, "No lane is held.")
			return
		}
		listing := table{columns: heads("LANE=:name", "HELD BY", "SINCE", "ENDS IN", "WAITING")}
		for _, l := range held.Items {
			listing.rows = append(listing.rows, []string{
				clean(l.Lane), clean(l.Holder), seconds(l.AgeMS).String(), seconds(l.RemainingMS).String(), clean(l.WantedBy),
			})
		}
		listing.print(newPaper(w, c.environ))
		if held.NextCursor != nil {
			fmt.Fprintln(w, "… and more: GET /api/v1/lanes pages through all of them.")
		}
	})
}

func (c *console) releaseLock(ctx context.Context, ws db.Workspace, name, reason string) error {
	if _, err := lane.ParseName(name); err != nil {
		return misused("%s", err)
	}
	core, ask, err := c.operate(ctx, ws)
	if err != nil {
		return err
	}
	defer core.DB.Close()
	var did struct {
		Released bool `json:"released"`
	}
	body := map[string]string{"reason": reason}
	all, err := ask.ask(ctx, http.MethodPost, "/api/v1/lanes/"+url.PathEscape(name)+"/force-release", body, &did)
	if err != nil {
		return err
	}
	if !did.Released {
		return fmt.Errorf("nobody holds a lane %q: `lanekeeper locks` lists those that are held", name)
	}
	return c.answer(all, func(w io.Writer) {
		fmt.Fprintf(w, "Lane %s is free. Whoever held it can't write under it any more.\n", name)
	})
}

func seconds(ms int64) time.Duration {
	return (time.Duration(ms) * time.Millisecond).Round(time.Second)
}

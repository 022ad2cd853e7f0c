package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// token prints the admin token, for a shell to take; on a terminal also how.
func token(*flag.FlagSet) action {
	return func(_ context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("token takes no arguments")
		}
		cfg, err := app.LoadConfig(c.environ)
		if err != nil {
			return err
		}
		t, err := adminToken(cfg)
		if errors.Is(err, fs.ErrNotExist) {
			return &hinted{err, "`lanekeeper dev` makes one when it starts; ADMIN_TOKEN sets one."}
		}
		if err != nil {
			return err
		}
		link := urlOf(cfg.Addr)
		return c.answer(struct {
			Token  string `json:"token"`
			Header string `json:"header"`
			URL    string `json:"url"`
		}{t, "Authorization: Bearer " + t, link}, func(w io.Writer) {
			fmt.Fprintln(w, t)
			if isTerminal(w) {
				fmt.Fprintf(w, "\n  export TOKEN=$(%s token)\n  curl -s -H \"Authorization: Bearer $TOKEN\" %s/api/v1/lanes\n", c.name, link)
			}
		})
	}
}

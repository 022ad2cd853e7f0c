package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/auth"
)

// migrateVerb migrates the schema and creates the default workspace and its first owner.
func migrateVerb(flags *flag.FlagSet) action {
	owner := flags.String("owner", "", "make the person with this `EMAIL` the owner of the default workspace, unless it has one")
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("migrate takes no arguments but --owner")
		}
		if _, err := auth.Email(*owner); *owner != "" && err != nil {
			return misused("--owner takes an e-mail address")
		}
		cfg, err := c.load()
		if err != nil {
			return err
		}
		log := c.logger(c.err, cfg, cfg.LogLevel)
		if !cfg.OnPostgres() { // the migrations themselves do not check for damage
			d, err := open(ctx, cfg, 0, false)
			if err != nil {
				return err
			}
			if err := d.Close(); err != nil {
				return err
			}
		}
		did, err := bringUp(ctx, cfg, log)
		if err != nil {
			return err
		}
		core, made, err := prepare(ctx, cfg, log, *owner)
		if err != nil {
			return err
		}
		defer core.DB.Close()
		return c.answer(struct {
			Database string   `json:"database"`
			From     int64    `json:"from"`
			To       int64    `json:"to"`
			Applied  []string `json:"applied"`
			Demo     bool     `json:"demo"`
			Owner    bool     `json:"owner"` // a first owner was created
		}{databaseOf(cfg), did.From, did.To, did.Applied, made.demo, made.owner}, func(w io.Writer) {
			switch {
			case did.To > migrations.Latest():
				fmt.Fprintf(w, "%s is at version %d, newer than this build's %d, which can still use it: nothing to do.\n",
					databaseOf(cfg), did.To, migrations.Latest())
			case len(did.Applied) == 0:
				fmt.Fprintf(w, "%s is at version %d: nothing to do.\n", databaseOf(cfg), did.To)
			default:
				fmt.Fprintf(w, "%s went from version %d to %d.\n", databaseOf(cfg), did.From, did.To)
			}
			if made.demo {
				fmt.Fprintln(w, "The default workspace has demo content.")
			}
			if made.shop {
				fmt.Fprintf(w, "The Engine Room's demo does not exist yet: `%s dev` makes it, unless `%s demo remove` was called before.\n",
					c.name, c.name)
			}
			switch {
			case made.owner:
				fmt.Fprintf(w, "%s is the owner of the default workspace: `%s token --user %s` prints a link to sign in.\n", *owner, c.name, *owner)
			case *owner != "":
				fmt.Fprintf(w, "The default workspace has an owner already: nothing changed. `%s members` lists who belongs to it.\n", c.name)
			}
		})
	}
}

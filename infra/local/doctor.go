package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn or fail
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"`
}

func ok(check, format string, args ...any) finding {
	return finding{Check: check, Status: "ok", Found: fmt.Sprintf(format, args...)}
}

func warn(check, fix, format string, args ...any) finding {
	return finding{Check: check, Status: "warn", Found: fmt.Sprintf(format, args...), Fix: fix}
}

func fail(check, fix string, err error) finding {
	return finding{Check: check, Status: "fail", Found: err.Error(), Fix: fix}
}

// doctor checks everything that Lanekeeper depends on. It changes nothing except a lane of its own,
// which it acquires and releases.
func doctor(*flag.FlagSet) action {
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("doctor takes no arguments")
		}
		findings := c.examine(ctx)
		failed := 0
		for _, f := range findings {
			if f.Status == "fail" {
				failed++
			}
		}
		err := c.answer(struct {
			Healthy bool      `json:"healthy"`
			Checks  []finding `json:"checks"`
		}{failed == 0, findings}, func(w io.Writer) {
			p := newPaper(w, c.environ)
			for _, f := range findings {
				p.print(true, statusSpan(fmt.Sprintf("%-5s", f.Status)), span{bold, fmt.Sprintf("%-14s", f.Check)}, span{plain, c.asCalled(f.Found)})
				if f.Fix != "" {
					p.print(true, span{dim, fmt.Sprintf("%19s", "→ ")}, span{plain, c.asCalled(f.Fix)})
				}
			}
		})
		if err == nil && failed > 0 {
			return &exitError{code: exitFailed}
		}
		return err
	}
}

// examine runs the checks. It skips the checks that a failed one makes meaningless.
func (c *console) examine(ctx context.Context) []finding {
	cfg, err := c.load()
	if problems, bad := errors.AsType[*problem.ConfigError](err); bad {
		var findings []finding
		for _, p := range problems.Problems {
			findings = append(findings, fail("configuration", "", errors.New(p.String())))
		}
		return findings
	}
	if err != nil {
		return []finding{fail("configuration", "", err)}
	}
	findings := []finding{ok("configuration", "every value can be used")}
	for _, note := range cfg.Notes() {
		findings = append(findings, warn("configuration", "", "%s", note))
	}
	for _, p := range cfg.Warnings() {
		findings = append(findings, warn("sign-in", p.Do, "%s %s", p.Variable, p.What))
	}
	sound := true
	if !cfg.OnPostgres() {
		var files []finding
		files, sound = checkFiles(ctx, cfg)
		findings = append(findings, files...)
	}
	var d *db.DB
	if sound {
		var found []finding
		if d, found = checkDatabase(ctx, cfg); d != nil {
			defer d.Close()
		}
		findings = append(findings, found...)
	}
	return append(findings, checkRedis(ctx, cfg), checkModel(ctx, cfg), checkKey(cfg), checkToken(cfg), checkAddress(ctx, cfg, d))
}

// checkDatabase opens the database. It returns an open handle if the database can be used.
func checkDatabase(ctx context.Context, cfg app.Config) (*db.DB, []finding) {
	d, err := connect(ctx, cfg)
	if err != nil {
		fix := hintFor(err)
		if _, outdated := errors.AsType[*db.SchemaError](err); outdated {
			fix = "lanekeeper migrate"
		}
		if newer, ok := errors.AsType[*db.NewerSchemaError](err); ok {
			fix = fmt.Sprintf("run the build that migrated it, or any of schema %d or later: "+
				"`lanekeeper version` prints a build's schema", newer.Oldest)
		}
		return nil, []finding{fail("database", fix, err)}
	}
	version, err := d.Schema(ctx)
	if err != nil {
		return nil, []finding{fail("database", hintFor(err), errors.Join(err, d.Close()))}
	}
	found := ok("database", "%s answers; its schema is what this build needs (%d)", databaseOf(cfg), buildOf().Schema)
	if version > buildOf().Schema {
		found = warn("database", "run the newer build here too",
			"%s answers; its schema is at version %d, newer than this build's %d, which can still use it",
			databaseOf(cfg), version, buildOf().Schema)
	}
	if cfg.OnPostgres() {
		found.Found += "; the role lanekeeper_app can't bypass row-level security"
	}
	return d, append([]finding{found}, checkLanes(ctx, d)...)
}

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/lanekeeper/lanekeeper/migrations"
)

// build describes this program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Changed  bool   `json:"changed,omitempty"` // built with uncommitted changes
	Go       string `json:"go"`
	Schema   int64  `json:"schema"` // schema version of its database
}

func buildOf() build {
	b := build{Version: "dev", Go: runtime.Version(), Schema: migrations.Latest()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Changed = s.Value == "true"
		}
	}
	return b
}

func version(*flag.FlagSet) action {
	return func(_ context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("version takes no arguments")
		}
		b := buildOf()
		return c.answer(b, func(w io.Writer) {
			fmt.Fprintf(w, "lanekeeper %s (%s), database schema %d\n", b.Version, b.Go, b.Schema)
			if b.Revision != "" {
				changed := ""
				if b.Changed {
					changed = ", changed since"
				}
				fmt.Fprintf(w, "revision %s%s\n", b.Revision, changed)
			}
		})
	}
}

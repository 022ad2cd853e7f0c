package main

import (
	"context"
	"flag"
	"fmt"
	"io"
)

// config prints the configuration in force. It also prints an invalid configuration, followed by
// what is wrong with it.
func config(*flag.FlagSet) action {
	return func(_ context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("config takes no arguments")
		}
		cfg, wrong := c.load()
		settings := cfg.Redacted()
		err := c.answer(settings, func(w io.Writer) {
			for _, s := range settings {
				value := s.Value
				if value == "" {
					value = "–"
				}
				source := "default"
				if s.Set {
					source = "set"
				}
				fmt.Fprintf(w, "%-28s %-8s %s\n", s.Variable, source, clean(value))
			}
			for _, note := range cfg.Notes() {
				fmt.Fprintf(w, "\n%s\n", note)
			}
		})
		if err != nil {
			return err
		}
		return wrong
	}
}

// Command bench measures the figures that the design promises. They are counts, and ratios within
// one run: on a shared machine times drift from minute to minute, but ratios do not. It prints each
// figure with its limit and the figure of the last run, and saves it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// Row is one figure.
type Row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	// Limit is the design's goal; zero: none.
	Limit float64 `json:"limit,omitempty"`
	// Least is the design's goal for what should be large; zero: none.
	Least float64 `json:"least,omitempty"`
	// Detail says what was compared.
	Detail string `json:"detail,omitempty"`
}

// Result holds the figures of one run.
type Result struct {
	At   time.Time `json:"at"`
	Rows []Row     `json:"rows"`
}

func main() {
	rounds := flag.Int("rounds", 300, "how often each pair is measured")
	out := flag.String("out", filepath.Join("bin", "bench.json"), "where the figures are saved")
	only := flag.String("only", "", "the parts to measure: those whose name has this in it; nothing is saved then")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rounds, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, out, only string) error {
	var res Result
	res.At = time.Now().UTC()
	for _, part := range []struct {
		name string
		run  func(context.Context, int) ([]Row, error)
	}{
		{"lanes on Postgres", lanesOnPostgres},
		{"lanes on SQLite", lanesOnSQLite},
		{"heartbeat", heartbeats},
		{"followers", followers},
		{"cycles", cycles},
		{"claims", claims},
		{"River", besideRiver},
		{"chat", chats},
		{"cold starts and sizes", coldStarts},
		{"page of the Engine Room", page},
	} {
		if !strings.Contains(part.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s …\n", part.name)
		rows, err := part.run(ctx, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		res.Rows = append(res.Rows, rows...)
	}
	last := load(out)
	show(res, last)
	if only != "" {
		return nil
	}
	return save(out, res)
}

func show(res, last Result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tnow\tlimit\tlast\tof")
	for _, r := range res.Rows {
		limit, before := "–", "–"
		if r.Limit > 0 {
			limit = "≤ " + number(r.Limit, r.Unit)
			if r.Value > r.Limit {
				limit += " (over)"
			}
		}
		if r.Least > 0 {
			limit = "≥ " + number(r.Least, r.Unit)
			if r.Value < r.Least {
				limit += " (under)"
			}
		}
		for _, l := range last.Rows {
			if l.Name == r.Name {
				before = number(l.Value, l.Unit)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, number(r.Value, r.Unit), limit, before, r.Detail)
	}
	w.Flush()
}

func number(v float64, unit string) string {
	s := fmt.Sprintf("%.2f", v)
	if v == float64(int64(v)) {
		s = fmt.Sprintf("%d", int64(v))
	}
	if unit != "" {
		s += " " + unit
	}
	return s
}

func load(path string) (r Result) {
	raw, err := os.ReadFile(path)
	if err == nil {
		_ = json.Unmarshal(raw, &r) // a damaged file only loses the comparison
	}
	return r
}

func save(path string, r Result) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, raw, 0o600))
}

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A column describes one column of a listing.
type column struct {
	head  string
	field string // of an item, or several with | between them
	kind  string // format: time, count, money, yes, data, list, fault, about, name, id; empty: unchanged
}

// whole reports whether the column is never cut, because people type its values.
func (c column) whole() bool { return c.kind == "id" || c.kind == "name" }

// heads parses columns such as "LAST RUN=lastRunAt:time". Of several fields, as in "OF=name|id", the first that an item
// has is shown.
func heads(all ...string) []column {
	out := make([]column, len(all))
	for i, one := range all {
		head, rest, _ := strings.Cut(one, "=")
		field, kind, _ := strings.Cut(rest, ":")
		out[i] = column{head, field, kind}
	}
	return out
}

// faults says in words whose fault the errors of a skill are.
var faults = map[string]string{
	"theirs": "its server", "ours": "this installation", "input": "its arguments", "rate_limit": "a rate limit", "policy": "a policy",
}

// causes says in words why a task failed that nobody has begun.
var causes = map[string]string{"dependency_failed": "what it depends on failed"}

// cell returns the text that shows a field of an item to a person.
func (c column) cell(item map[string]any, now time.Time) string {
	var v any
	for field := range strings.SplitSeq(c.field, "|") {
		if v = item[field]; v != nil {
			break
		}
	}
	if v == nil && c.kind != "about" {
		return ""
	}
	text := clean(fmt.Sprint(v))
	number, notNumber := strconv.ParseInt(text, 10, 64)
	switch c.kind {
	case "time":
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return ago(at, now)
		}
	case "count":
		if notNumber == nil {
			return thousands(number)
		}
	case "money":
		if notNumber == nil {
			return dollars(number)
		}
	case "yes":
		if v == true {
			return "yes"
		}
		return "no"
	case "fault":
		return cmp.Or(faults[text], text)
	case "cause":
		return cmp.Or(causes[text], text)
	case "list":
		if all, ok := v.([]any); ok {
			texts := make([]string, len(all))
			for i, one := range all {
				texts[i] = fmt.Sprint(one)
			}
			return clean(strings.Join(texts, ", "))
		}
	case "data":
		if edited := item["editedInput"]; edited != nil {
			v = edited
		}
		raw, _ := json.Marshal(v) // it was decoded from JSON
		return clean(string(raw))
	case "about":
		text := func(field string) string { s, _ := item[field].(string); return s }
		return clean(aboutOf(text("title"), text("subject"), text("agent")))
	}
	return text
}

// ago formats a time relative to now.
func ago(at, now time.Time) string {
	d, form := now.Sub(at), "%s ago"
	if d < 0 {
		d, form = -d, "in %s"
	}
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf(form, count(int64(d/time.Second), "second"))
	case d < time.Hour:
		return fmt.Sprintf(form, count(int64(d/time.Minute), "minute"))
	case d < 48*time.Hour:
		return fmt.Sprintf(form, count(int64(d/time.Hour), "hour"))
	case d < 60*24*time.Hour:
		return fmt.Sprintf(form, count(int64(d/(24*time.Hour)), "day"))
	}
	return at.Local().Format(time.DateOnly)
}

// dollars formats millionths of a dollar with as many digits as are significant.
func dollars(micro int64) string {
	if micro == 0 {
		return "$0"
	}
	if micro >= 1_000_000 {
		return fmt.Sprintf("$%s.%02d", thousands(micro/1_000_000), micro/10_000%100)
	}
	return "$" + strings.TrimRight(fmt.Sprintf("%.6f", float64(micro)/1e6), "0")
}

// A table is printed in lines that fit the width of the paper. If they are too long, it cuts cells
// other than names, and prints ids on their own lines.
type table struct {
	columns []column
	rows    [][]string
}

// Widths of cells, in columns of the terminal.
const (
	longestCell = 60 // if the width is not limited
	shortCell   = 30 // the shortest cut before ids move to their own lines
	gap         = 2
)

func (t table) print(p paper) {
	widths, line := make([]int, len(t.columns)), -gap
	for i, c := range t.columns {
		widths[i] = columnsOf(c.head)
		for _, row := range t.rows {
			widths[i] = max(widths[i], columnsOf(row[i]))
		}
		if !c.whole() {
			widths[i] = min(widths[i], longestCell)
		}
		line += widths[i] + gap
	}
	width, apart := p.width(), false
	if width > 0 {
		whole := slices.Clone(widths)
		if apart = t.narrow(widths, line, width, shortCell) > width; apart {
			widths = whole
			for i, c := range t.columns {
				if c.kind == "id" {
					line -= widths[i] + gap
				}
			}
			t.narrow(widths, line, width, 1)
		}
	}
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.head
	}
	t.row(p, bold, names, widths, apart)
	for _, row := range t.rows {
		t.row(p, plain, row, widths, apart)
		if apart {
			t.ids(p, row, width)
		}
	}
}

// ids prints the ids of a row below it, as many per line as fit.
func (t table) ids(p paper, row []string, width int) {
	line := ""
	for i, c := range t.columns {
		if c.kind != "id" || row[i] == "" {
			continue
		}
		one := "  " + strings.ToLower(c.head) + " " + row[i]
		if line != "" && columnsOf(line)+columnsOf(one) > width {
			p.print(true, span{dim, line})
			line = ""
		}
		line += one
	}
	if line != "" {
		p.print(true, span{dim, line})
	}
}

// narrow shortens the widest cells until a line fits, or until no cell is wider than least. It
// returns the new length of the line.
func (t table) narrow(widths []int, line, width, least int) int {
	for line > width {
		widest := -1
		for i, c := range t.columns {
			if !c.whole() && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		line--
	}
	return line
}

func (t table) row(p paper, s style, cells []string, widths []int, apart bool) {
	var b strings.Builder
	for i, cell := range cells {
		if apart && t.columns[i].kind == "id" {
			continue
		}
		text := cut(cell, widths[i])
		b.WriteString(text + strings.Repeat(" ", widths[i]-columnsOf(text)+gap))
	}
	p.print(true, span{s, strings.TrimRight(b.String(), " ")})
}

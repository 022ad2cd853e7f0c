package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

// A Context is what a person should know of a call before they decide on it.
type Context struct {
	Read    []Reading
	History History
}

// A Reading is untrusted text that the execution had read when it made the request.
type Reading struct {
	What  string // the skill that brought it; empty: the execution began with it
	Where string // of the call's arguments the one that tells most, such as a URL
	At    time.Time
}

// History counts the last decisions on other calls of the same skill, at most [maxHistory].
type History struct{ Approved, Rejected, Edited int }

// decided counts the last decisions on calls of a skill. The first of these calls was asked for at since.
type decided struct {
	History
	since time.Time
}

// without returns the decisions on other calls than a.
func (d decided) without(a Approval) History {
	h := d.History
	switch {
	case a.RequestedAt.Before(d.since): // not counted
	case a.Status == Rejected:
		h.Rejected--
	case a.Status != Approved && a.Status != Executed: // not decided
	case len(a.Edited) > 0:
		h.Edited--
	default:
		h.Approved--
	}
	return h
}

const (
	maxHistory  = 100
	maxReadings = 10 // of one execution
)

// Contexts reads the contexts of approvals, by id. It runs two statements in one round trip, for any
// number of approvals.
func (s *Store) Contexts(ctx context.Context, ws db.Workspace, of []Approval) (map[string]Context, error) {
	if len(of) == 0 {
		return nil, nil
	}
	skills, executions := map[string]bool{}, map[string]bool{}
	for _, a := range of {
		skills[a.Skill] = true
		if a.Untrusted {
			executions[a.Execution] = true
		}
	}
	history, read := map[string]decided{}, map[string][]Reading{}
	var b db.Batch
	b.Each(db.Put(history, func(scan db.Scan, skill *string, h *decided) error {
		return scan(skill, &h.Approved, &h.Rejected, &h.Edited, &h.since)
	}), s.q.History, list(skills), maxHistory)
	b.Each(func(scan db.Scan) error {
		var execution, arguments string
		var r Reading
		err := scan(&execution, db.Optional(&r.What), db.Optional(&arguments), &r.At)
		r.Where = telling(arguments)
		read[execution] = append(read[execution], r)
		return err
	}, s.q.Readings, list(executions), maxReadings)
	if err := s.DB.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("read what approvals are about: %w", err)
	}
	out := make(map[string]Context, len(of))
	for _, a := range of {
		c := Context{History: history[a.Skill].without(a)}
		for _, r := range read[a.Execution] {
			if a.Untrusted && !r.At.After(a.RequestedAt) {
				c.Read = append(c.Read, r)
			}
		}
		out[a.ID] = c
	}
	return out, nil
}

// list returns the names as a JSON array.
func list(names map[string]bool) string {
	all := slices.AppendSeq([]string{}, maps.Keys(names))
	slices.Sort(all)
	return db.Encode(all)
}

// places are the names of arguments that say where something was read.
var places = []string{"url", "uri", "link", "address", "path", "page", "query", "q", "id"}

const maxWhere = 200 // characters

// telling returns the argument that says most about where a call has read.
func telling(arguments string) string {
	var v map[string]any
	if json.Unmarshal([]byte(arguments), &v) != nil {
		return ""
	}
	for _, name := range slices.Concat(places, slices.Sorted(maps.Keys(v))) {
		if text, ok := v[name].(string); ok && text != "" {
			return cut(text, maxWhere)
		}
	}
	return ""
}

const (
	maxTitle    = 120 // characters
	maxArgument = 40
	titled      = 3 // arguments in a title
)

// Title says in one line what the call would do: the skill's name and its first short arguments.
func (a Approval) Title() string {
	title := strings.ReplaceAll(a.Skill, "_", " ")
	if r := []rune(title); len(r) > 0 {
		r[0] = unicode.ToUpper(r[0])
		title = string(r)
	}
	var v map[string]any
	if jsonscan.Decode(a.Input(), &v) != nil {
		return title
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		switch value := v[name].(type) {
		case string:
			if text := strings.Join(strings.Fields(value), " "); text != "" {
				said = append(said, name+" "+cut(text, maxArgument))
			}
		case json.Number, bool:
			said = append(said, fmt.Sprint(name, " ", value))
		}
	}
	if len(said) > 0 {
		title += ": " + strings.Join(said[:min(len(said), titled)], ", ")
	}
	return cut(title, maxTitle)
}

func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

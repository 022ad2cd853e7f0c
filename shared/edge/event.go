package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// event is a JSON object that is read field by field. The first thing that is
// wrong with it stays.
type event struct {
	fields map[string]json.RawMessage // that have not been read yet
	err    error
}

// fields takes a payload apart that must be one JSON object, without a field that
// comes twice.
func fields(payload []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	switch open, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil, &EventError{Problem: "is empty: an invocation by hand sends {}"}
	case err != nil:
		return nil, errNotJSON
	case open != json.Delim('{'):
		return nil, &EventError{Problem: "is not a JSON object"}
	}
	all := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errNotJSON
		}
		key, _ := name.(string) // that it is one is JSON's rule
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errNotJSON
		}
		if _, twice := all[key]; twice {
			return nil, &EventError{Field: shown(key), Problem: "comes twice"}
		}
		all[key] = value
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, errNotJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, &EventError{Problem: "goes on after its JSON object"}
	}
	return all, nil
}

var errNotJSON = &EventError{Problem: "is not JSON"}

func (e *event) fail(field, problem string) {
	if e.err == nil {
		e.err = &EventError{Field: field, Problem: problem}
	}
}

// read takes a field out. One that is null, or not there, leaves into as it is.
func (e *event) read(field string, into any, want string) {
	raw, ok := e.fields[field]
	delete(e.fields, field)
	if ok && json.Unmarshal(raw, into) != nil {
		e.fail(field, "is not "+want)
	}
}

func (e *event) text(field string) (s string) {
	e.read(field, &s, "a text")
	return s
}

func (e *event) flag(field string) (b bool) {
	e.read(field, &b, "true or false")
	return b
}

// earliest is the first slot there can have been: the zero time among what is
// before it would be a beat by hand.
var earliest = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// slot reads a time and cuts it to the minute.
func (e *event) slot(field string, required bool) time.Time {
	s := e.text(field)
	if s == "" {
		if required {
			e.fail(field, "is missing")
		}
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	t = t.UTC().Truncate(time.Minute)
	switch {
	case err != nil || t.Year() > 9999:
		e.fail(field, "is not a time such as 2026-11-20T10:30:00Z")
	case t.Before(earliest):
		e.fail(field, "is before the first there can have been")
	}
	return t
}

// workspace reads a UUID, in its usual form only.
func (e *event) workspace() db.Workspace {
	s := e.text("workspace")
	if s == "" {
		return ""
	}
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 || id == uuid.Nil {
		e.fail("workspace", "is not the id of one")
	}
	return db.Workspace(id.String())
}

// rest is the first error, or that there is a field nobody has read.
func (e *event) rest() error {
	if e.err != nil || len(e.fields) == 0 {
		return e.err
	}
	var names []string
	for name := range e.fields {
		names = append(names, name)
	}
	return &EventError{Field: shown(slices.Min(names)), Problem: "is unknown"}
}

// shown is the name of a field that somebody else chose.
func shown(name string) string {
	const most = 40
	runes := []rune(name)
	for i, r := range runes {
		if r <= ' ' || r > '~' {
			runes[i] = '?'
		}
	}
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}

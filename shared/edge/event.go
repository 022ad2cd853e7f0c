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

// event is a JSON object that is read field by field. It keeps the first error.
type event struct {
	fields map[string]json.RawMessage // not read yet
	err    error
}

// fields splits a payload into its fields. The payload must be exactly one JSON object without
// duplicate fields.
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
		key, _ := name.(string) // JSON allows only strings here
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

// read removes a field and decodes it into into. A field that is null or missing leaves into
// unchanged.
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

// earliest is the earliest valid slot. It excludes the zero time, which means a beat by hand.
var earliest = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// slot reads a time and truncates it to the minute.
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

// workspace reads a UUID in its canonical form with 36 characters.
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

// rest returns the first error. Without one it returns an error for a field that nothing has read.
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

// shown returns a field name from outside in printable form, at most 40 characters long.
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

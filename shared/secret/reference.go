package secret

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

const (
	maxConfig     = 1 << 20 // before and after the expansion
	maxReferences = 64      // distinct secrets
)

// ErrConfig says that a configuration with references to secrets can't be expanded: it is invalid
// JSON, larger than 1 MiB, or refers to more than 64 secrets.
var ErrConfig = errors.New("the configuration can't be expanded")

// A Resolver returns a workspace's secrets. [Store] is one.
type Resolver interface {
	Resolve(ctx context.Context, ws db.Workspace, name string) (Value, error)
}

// Expand replaces the references to secrets by the secrets' texts. The resulting JSON is itself a
// secret. Errors: [ErrConfig], a [NotFoundError] for a missing secret, and [ErrName] for an invalid
// name.
func Expand(ctx context.Context, ws db.Workspace, raw json.RawMessage, by Resolver) (Value, error) {
	if len(raw) > maxConfig || !json.Valid(raw) {
		return Value{}, ErrConfig
	}
	e := expansion{ctx: ctx, ws: ws, by: by, known: map[string]Value{}}
	sc := jsonscan.New(string(raw))
	size := len(raw)
	var edits []jsonscan.Edit
	for t, ok := sc.Next(); ok; t, ok = sc.Next() {
		if t.Kind != '{' {
			continue
		}
		name, ok := sc.Sole(t, redact.Reference)
		if !ok {
			continue
		}
		v, err := e.resolve(sc.Decoded(name))
		if err != nil {
			return Value{}, err
		}
		text := jsonscan.Quote(v.Reveal())
		if size += len(text); size > maxConfig {
			return Value{}, ErrConfig
		}
		edits = append(edits, jsonscan.Edit{Start: t.Start, End: sc.At(), With: text})
	}
	return NewValue(jsonscan.Apply(sc.Text, edits)), nil
}

// expansion resolves each secret once.
type expansion struct {
	ctx   context.Context
	ws    db.Workspace
	by    Resolver
	known map[string]Value
}

func (e *expansion) resolve(name string) (Value, error) {
	if !ValidName(name) {
		return Value{}, ErrName
	}
	if v, ok := e.known[name]; ok {
		return v, nil
	}
	if len(e.known) >= maxReferences {
		return Value{}, ErrConfig
	}
	v, err := e.by.Resolve(e.ctx, e.ws, name)
	if err != nil {
		return Value{}, err
	}
	e.known[name] = v
	return v, nil
}

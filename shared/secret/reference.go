package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// referenceKey is the one member of a reference, {"$secret": "name"}.
const referenceKey = "$secret"

const (
	maxConfig     = 1 << 20 // before and after it is expanded
	maxReferences = 64      // different secrets
)

// ErrConfig says that a configuration with references to secrets can't be expanded:
// it is no JSON, larger than 1 MiB, or refers to more than 64 secrets.
var ErrConfig = errors.New("the configuration can't be expanded")

// A Resolver gives a workspace's secrets; [Store] is one.
type Resolver interface {
	Resolve(ctx context.Context, ws db.Workspace, name string) (Value, error)
}

// References lists the secrets that a JSON value refers to, each once, in order.
// Nothing is left out because it is no possible name: see [ValidName].
func References(raw json.RawMessage) []string {
	if !json.Valid(raw) {
		return nil
	}
	var names []string
	sc := scanner{s: string(raw)}
	for t, ok := sc.next(); ok; t, ok = sc.next() {
		if t.kind != '{' {
			continue
		}
		if name, ok := sc.reference(t); ok && !slices.Contains(names, sc.decoded(name)) {
			names = append(names, sc.decoded(name))
		}
	}
	return names
}

// Expand puts the secrets' texts in the place of the references to them. The JSON
// that comes out is itself a secret. A secret that is not there is a
// [NotFoundError], a reference by what is no name [ErrName].
func Expand(ctx context.Context, ws db.Workspace, raw json.RawMessage, by Resolver) (Value, error) {
	if len(raw) > maxConfig || !json.Valid(raw) {
		return Value{}, ErrConfig
	}
	e := expansion{ctx: ctx, ws: ws, by: by, known: map[string]Value{}}
	sc := scanner{s: string(raw)}
	size := len(raw)
	var edits []edit
	for t, ok := sc.next(); ok; t, ok = sc.next() {
		if t.kind != '{' {
			continue
		}
		name, ok := sc.reference(t)
		if !ok {
			continue
		}
		v, err := e.resolve(sc.decoded(name))
		if err != nil {
			return Value{}, err
		}
		text := quoted(v.Reveal())
		if size += len(text); size > maxConfig {
			return Value{}, ErrConfig
		}
		edits = append(edits, edit{t.start, sc.i, text})
	}
	return NewValue(apply(sc.s, edits)), nil
}

// ExpandHeaders gives the values of headers, each of which is a text or a reference
// to a secret. Errors are those of [Expand].
func ExpandHeaders(ctx context.Context, ws db.Workspace, headers map[string]json.RawMessage, by Resolver) (map[string]Value, error) {
	e := expansion{ctx: ctx, ws: ws, by: by, known: map[string]Value{}}
	out := make(map[string]Value, len(headers))
	for header, raw := range headers {
		if len(raw) > maxConfig || !json.Valid(raw) {
			return nil, fmt.Errorf("header %.100q: %w", header, ErrConfig)
		}
		sc := scanner{s: string(raw)}
		t, _ := sc.next()
		if t.kind == '"' {
			out[header] = NewValue(sc.decoded(t))
			continue
		}
		name, ok := token{}, false
		if t.kind == '{' {
			name, ok = sc.reference(t)
		}
		if !ok {
			return nil, fmt.Errorf("header %.100q is neither a text nor a reference: %w", header, ErrConfig)
		}
		v, err := e.resolve(sc.decoded(name))
		if err != nil {
			return nil, fmt.Errorf("header %.100q: %w", header, err)
		}
		out[header] = v
	}
	return out, nil
}

// expansion asks for each secret once.
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

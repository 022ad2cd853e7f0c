package skill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
)

// DecodeConfig decodes a kind's config into a struct. A key that is not exactly one of fields
// returns an [InvalidError], and so does a value of the wrong type.
func DecodeConfig(raw json.RawMessage, into any, fields ...string) error {
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil || given == nil {
		return Invalid("config", "must be an object")
	}
	bad := &InvalidError{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		bad.If(!slices.Contains(fields, name), "config."+name, "is not a field of this kind's config")
	}
	if err := bad.OrNil(); err != nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(into); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return Invalid("config."+wrong.Field, "must be of another type")
		}
		return Invalid("config", "can't be read")
	}
	return nil
}

// Watch returns a context that traces a request of net/http. left reports whether the request may
// have left this process: only then is the outcome of a failed request uncertain. Without any event
// of net/http, left returns true. left is safe for concurrent use.
func Watch(ctx context.Context) (_ context.Context, left func() bool) {
	var asked, wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { asked.Store(true) },
		WroteHeaders: func() { wrote.Store(true) },
	})
	return ctx, func() bool { return !asked.Load() || wrote.Load() }
}

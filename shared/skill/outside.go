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

// DecodeConfig reads a kind's config into a struct. What is not one of the fields,
// letter by letter, is an [InvalidError], and so is a value of another type.
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

// Watch returns a context under which net/http tells whether a request may have
// left: only then is an error's effect uncertain. Without a sign of net/http it may
// have. The answer is safe for concurrent use.
func Watch(ctx context.Context) (_ context.Context, left func() bool) {
	var asked, wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { asked.Store(true) },
		WroteHeaders: func() { wrote.Store(true) },
	})
	return ctx, func() bool { return !asked.Load() || wrote.Load() }
}

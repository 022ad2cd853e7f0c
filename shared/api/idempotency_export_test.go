package api

import (
	"context"
	"net/http"
	"time"
)

// NewIdempotent returns a handler that honours idempotency keys.
func NewIdempotent(d Deps, route string, sensitive bool, within time.Duration, next http.Handler) (http.Handler, error) {
	i, err := newIdempotency(&server{Deps: d})
	if err != nil {
		return nil, err
	}
	return i.once(keyed{route: route, sensitive: sensitive, within: within}, next), nil
}

// ClaimedID returns the id for what a request with an idempotency key creates.
func ClaimedID(ctx context.Context) string { return (&server{}).newID(ctx) }

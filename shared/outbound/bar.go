package outbound

import (
	"context"
	"errors"
)

// ErrBarred means that something was to be sent under a context of [Bar].
var ErrBarred = errors.New("nothing is sent inside a transaction: whoever waits for its locks would wait for the answer")

type barKey struct{}

// Bar returns a context under which nothing is sent: it is for what runs inside a transaction.
func Bar(ctx context.Context) context.Context { return context.WithValue(ctx, barKey{}, true) }

// Barred returns [ErrBarred] under a context of [Bar]. Code that sends without a [Client]
// calls it first.
func Barred(ctx context.Context) error {
	if ctx.Value(barKey{}) == nil {
		return nil
	}
	return ErrBarred
}

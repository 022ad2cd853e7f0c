package channel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Client sends requests. It returns a redirect as the answer. [outbound.Client] implements it.
type Client interface {
	DoOnce(*http.Request) (*http.Response, error)
}

// Secret returns the credential of a channel. It is called for every message.
type Secret func(context.Context, db.Workspace) (secret.Value, error)

// reveal returns the text of a secret. If the secret is missing or damaged, the error is an
// [outbox.PermanentError].
func (s Secret) reveal(ctx context.Context, ws db.Workspace, what string) (string, error) {
	v, err := s(ctx, ws)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
		if errors.Is(err, secret.ErrNotFound) || errors.Is(err, secret.ErrDamaged) {
			return "", outbox.Permanently(err)
		}
		return "", err
	}
	text := strings.TrimSpace(v.Reveal())
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", outbox.Permanently(fmt.Errorf("%s: it must be one word of ASCII", what))
	}
	return text, nil
}

// An AnswerError is an answer with which a receiver rejected a message.
type AnswerError struct {
	Status int           // of HTTP
	After  time.Duration // when the receiver accepts a retry; 0: it did not say
}

func (e *AnswerError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("the receiver answered %d %s", e.Status, http.StatusText(e.Status)))
	if e.After > 0 {
		text += fmt.Sprintf("; try again after %v", e.After)
	}
	return text
}

// RetryAfter tells the outbox how long to wait.
func (e *AnswerError) RetryAfter() time.Duration { return e.After }

const longestAfter = time.Hour

// refused returns the error of an answer whose status is not 2xx. keyed says that sending the
// message again does no harm.
func refused(resp *http.Response, keyed bool) error {
	e := &AnswerError{Status: resp.StatusCode}
	if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		e.After = min(time.Duration(seconds)*time.Second, longestAfter)
	}
	switch status := resp.StatusCode; {
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return e
	case status >= 500 && keyed:
		return e
	case status >= 500:
		return outbox.Uncertainly(e)
	}
	return outbox.Permanently(e)
}

// unanswered returns the error of a request without an answer. left says that it may have left.
func unanswered(err error, left bool) error {
	switch {
	case errors.Is(err, outbound.ErrBlocked):
		return outbox.Permanently(err)
	case left:
		return outbox.Uncertainly(fmt.Errorf("the request was sent, and no answer came: %w", err))
	}
	return err
}

// Watch returns a context that traces a request of net/http. left reports whether the request's
// headers were written.
func Watch(ctx context.Context) (_ context.Context, left func() bool) {
	var wrote atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }}), wrote.Load
}

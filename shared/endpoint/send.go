package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/channel"
)

// sendTime limits a request, from the lookup of the host to the end of the answer.
const sendTime = 10 * time.Second

// Sender posts events to endpoints.
type Sender struct {
	Client  Client
	Clock   func() time.Time
	Timeout time.Duration // of a request; 0, or more than 10 seconds: 10 seconds
}

func (s Sender) timeout() time.Duration {
	if s.Timeout > 0 {
		return min(s.Timeout, sendTime)
	}
	return sendTime
}

// Client sends requests to addresses that may be called only, and returns a redirect as the answer.
// [outbound.Client] implements it.
type Client interface {
	channel.Client
	CheckDNS(ctx context.Context, url string) error
}

// answer is the outcome of a request.
type answer struct {
	status int // of HTTP; 0: none came
	body   []byte
	after  time.Duration // when the receiver accepts a retry; 0: it did not say
	err    error         // nil: the event was accepted
	took   time.Duration
}

// RedirectError says that a receiver answered with a redirect, which is not followed: the events are
// meant for the registered URL only.
type RedirectError struct{ Status int }

func (e *RedirectError) Error() string {
	return fmt.Sprintf("the receiver answered %d %s: redirects are not followed", e.Status, http.StatusText(e.Status))
}

// post sends a signed body. Any 2xx answer accepts it.
func (s Sender) post(ctx context.Context, url string, keys [][]byte, id string, body []byte) (a answer) {
	begun := time.Now()
	defer func() { a.took = time.Since(begun) }()
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil { // the error's text contains the URL
		return answer{err: errors.New("the address is no URL")}
	}
	channel.Sign(req.Header, keys, id, s.Clock(), body)
	resp, err := s.Client.DoOnce(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return answer{err: fmt.Errorf("no answer within %s", s.timeout())}
	case err != nil:
		return answer{err: err}
	}
	defer resp.Body.Close()
	a = answer{status: resp.StatusCode, body: channel.ReadAnswer(resp)}
	switch {
	case a.status >= 200 && a.status <= 299:
	case a.status >= 300 && a.status <= 399:
		a.err = &RedirectError{a.status}
	default:
		a.after = retryAfter(resp.Header.Get("Retry-After"), s.Clock())
		a.err = &channel.AnswerError{Status: a.status, After: a.after}
	}
	return a
}

// retryAfter reads a delay in seconds, or a time. A delay of more than allTime is as good as allTime.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, allTime)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), allTime)
	}
	return 0
}

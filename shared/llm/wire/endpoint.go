package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Doer sends requests and must not follow redirects. [NewEndpoint] turns off the redirects of an
// *http.Client.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Endpoint is one URL of a provider. It answers a POST of JSON with JSON or with server-sent
// events. It is safe for concurrent use.
type Endpoint struct {
	provider string
	url      string
	http     Doer
	header   http.Header // without the key
	keyName  string      // empty: there is no key
	key      secret.Value
	redactor *redact.Redactor
}

// Config configures an endpoint.
type Config struct {
	Provider  string      // its name in errors
	URL       *url.URL    // as [ParseURL] returns it
	HTTP      Doer        // nil: an own client over net/http's default transport
	Header    http.Header // sent with every request
	Key       secret.Value
	KeyHeader string // the header that holds the key, if there is one
	KeyPrefix string // the text before the key in that header
}

// ParseURL parses the base URL of a provider. An error does not contain the URL, because it may
// hold a secret.
func ParseURL(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("the base URL is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("the base URL has to begin with http:// or https:// and a host")
	case u.User != nil:
		return nil, errors.New("the base URL may not hold a user or a password")
	}
	return u, nil
}

// NewEndpoint returns an endpoint. An error does not contain the key.
func NewEndpoint(c Config) (*Endpoint, error) {
	key := c.Key.Reveal()
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key has a character that no key has: a space, a line break, a letter beyond ASCII")
	}
	e := &Endpoint{provider: c.Provider, url: c.URL.String(), http: c.HTTP, header: c.Header.Clone(), redactor: redact.New(nil)}
	if key != "" {
		e.keyName, e.key = c.KeyHeader, secret.NewValue(c.KeyPrefix+key)
		e.redactor.Add(c.Key)
	}
	if e.http == nil {
		e.http = &http.Client{}
	}
	if client, ok := e.http.(*http.Client); ok {
		straight := *client
		straight.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		e.http = &straight
	}
	return e, nil
}

// Receiver receives the answer. An error that is not a [*Failure] means that the answer is
// malformed.
type Receiver interface {
	// Whole receives an answer that is not streamed.
	Whole(body []byte) error
	// Event receives one event. It returns whether the event was the last.
	Event(Event) (last bool, err error)
	// End is called when the stream ends without a last event.
	End() error
	// Think is called for a comment in the stream: the server says that it is still working.
	Think()
}

// Ask posts the body and passes the answer to the receiver. The answer may be a stream or whole,
// independent of the parameter stream, because some providers ignore the request. The error is an
// *llm.Error.
func (e *Endpoint) Ask(ctx context.Context, body []byte, stream bool, to Receiver) error {
	resp, err := e.post(ctx, body, stream)
	if err != nil {
		return e.failed(ctx, nil, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return e.failed(ctx, resp.Header, readFailure(resp))
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	in := &beginning{bufio.NewReader(resp.Body), resp.Body}
	if media == "text/event-stream" || stream && media != "application/json" && !in.object() {
		err = passEvents(ctx, in, to)
	} else {
		err = passWhole(in, to)
	}
	if err != nil {
		return e.failed(ctx, resp.Header, err)
	}
	return nil
}

func (e *Endpoint) post(ctx context.Context, body []byte, stream bool) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, e.header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if stream {
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if e.keyName != "" {
		req.Header.Set(e.keyName, e.key.Reveal())
	}
	resp, err := e.http.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the text of a url.Error contains the URL
	}
	return resp, err
}

// beginning is a body whose first byte can be looked at.
type beginning struct {
	*bufio.Reader
	io.Closer
}

// object reports whether the body begins as a JSON object does, and no event. Some servers ignore that a
// stream is asked for, and do not say what they send.
func (b *beginning) object() bool {
	first, err := b.Peek(1)
	return err == nil && first[0] == '{'
}

func passWhole(in io.ReadCloser, to Receiver) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, in, MaxWhole))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return to.Whole(body)
}

func passEvents(ctx context.Context, in io.ReadCloser, to Receiver) error {
	r := NewReader(http.MaxBytesReader(nil, in, MaxStream), MaxEvent)
	r.OnComment = to.Think
	for {
		event, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return to.End()
		case err != nil:
			return fmt.Errorf("read the stream: %w", err)
		}
		if last, err := to.Event(event); last || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // buffered events would delay the error
			return err
		}
	}
}

// failed converts err to an *llm.Error. If ctx has ended, that is the reported cause, because it
// explains any other error.
func (e *Endpoint) failed(ctx context.Context, header http.Header, err error) error {
	if ended := llm.Interrupted(ctx, e.provider); ended != nil {
		return ended
	}
	out := &llm.Error{Class: classOf(err), Provider: e.provider, RetryAfter: retryAfter(header)}
	if out.Class == llm.ClassRateLimit && out.RetryAfter == 0 {
		out.RetryAfter = waitIn(err.Error())
	}
	text := err.Error()
	if id := cmp.Or(header.Get("Request-Id"), header.Get("X-Request-Id")); id != "" && len(id) <= 100 {
		text = "request " + id + ": " + text
	}
	out.Err = errors.New(clip(e.redactor.Text(strings.ToValidUTF8(text, "\uFFFD"))))
	return out
}

// clip returns at most [MaxText] bytes of s, in whole characters.
func clip(s string) string {
	if len(s) <= MaxText {
		return s
	}
	const more = "…"
	return strings.ToValidUTF8(s[:MaxText-len(more)], "") + more
}

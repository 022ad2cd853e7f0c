package bedrock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
)

const (
	maxAnswer = 16 << 20 // bytes of an answer on the wire
	maxError  = 64 << 10 // of an error
)

// bounded limits the size of response bodies, because the SDK reads them whole.
type bounded struct{ bedrockruntime.HTTPClient }

func (b bounded) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		// The SDK closes the request's body when the response begins. If the transport is slow, it
		// may still check whether the body has more data. The body's WriteTo then fails, and the
		// transport closes the connection in the middle of the answer. A plain Read ends normally.
		r = r.WithContext(r.Context())
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	resp, err := b.HTTPClient.Do(r)
	if err != nil {
		return nil, err
	}
	limit := int64(maxAnswer)
	if resp.StatusCode >= http.StatusBadRequest {
		limit = maxError
	}
	resp.Body = &body{resp.Body, limit, limit}
	return resp, nil
}

// errTooLong is the error of a body larger than its limit.
var errTooLong = errors.New("the body is too long")

type body struct {
	io.ReadCloser
	left, limit int64
}

// Read fails at the first byte after the limit.
func (b *body) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n, b.left = int(b.left), 0
		return n, fmt.Errorf("%w: over %d bytes", errTooLong, b.limit)
	}
	b.left -= int64(n)
	return n, err
}

// credentials marks the errors of a credentials provider, so that they can be distinguished from
// those of Bedrock.
type credentials struct{ aws.CredentialsProvider }

func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	v, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return v, &setupError{err}
	}
	return v, nil
}

// A setupError is a failure of our configuration, not of Bedrock.
type setupError struct{ err error }

func (e *setupError) Error() string { return e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

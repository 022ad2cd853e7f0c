// Package amazon makes the AWS calls of channels. The services know no idempotency key for a
// message. So a call is made once, and its error says whether the message may have been sent.
package amazon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Config returns the AWS configuration. It is called for every message, so that nothing of AWS is
// loaded before it is needed.
type Config func(context.Context) (aws.Config, error)

// CallTime is the timeout of a call. In a VPC without a route to the service, a call would hang.
const CallTime = 15 * time.Second

// Call makes one call to a service. The class of its error is documented in package channel. Of the
// service's message, the error's text contains the code only.
func Call(ctx context.Context, service string, config Config, call func(context.Context, aws.Config) error) error {
	cfg, err := config(ctx)
	if err != nil {
		return fmt.Errorf("%s: configure the AWS SDK: %w", service, err)
	}
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // a retry could send the message twice
	// A kept connection may be dead: then a request leaves and brings no answer.
	if c, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		cfg.HTTPClient = c.WithTransportOptions(func(t *http.Transport) { t.DisableKeepAlives = true })
	}
	ctx, cancel := context.WithTimeout(ctx, CallTime)
	defer cancel()
	ctx, left := channel.Watch(ctx)
	if err := call(ctx, cfg); err != nil {
		return failure(service, err, left())
	}
	return nil
}

// failure classifies the error of a call. left says that the request may have left.
func failure(service string, err error, left bool) error {
	status, code := 0, "unknown"
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = answer.HTTPStatusCode()
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok && codes().MatchString(api.ErrorCode()) {
		code = api.ErrorCode()
	}
	refused := fmt.Errorf("%s refused the message (%d %s)", service, status, code)
	switch {
	case later(status, code):
		return refused
	case status >= 500:
		return outbox.Uncertainly(refused)
	case status >= 300:
		return outbox.Permanently(refused)
	case left:
		return outbox.Uncertainly(fmt.Errorf("the request was sent, and no answer of %s came", service))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%s could not be reached in time", service)
	}
	if _, sending := errors.AsType[*smithyhttp.RequestSendError](err); sending {
		return fmt.Errorf("%s could not be reached", service)
	}
	return fmt.Errorf("%s could not be called: credentials or region are missing", service)
}

// later reports whether a refusal is temporary.
func later(status int, code string) bool {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		return true
	}
	switch code {
	case "ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeout", "RequestTimeoutException":
		return true
	}
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	return throttled
}

var codes = pattern.New(`^[A-Za-z0-9.]{1,80}$`)

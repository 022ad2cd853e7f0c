// Package amazon makes the calls by which channels send over AWS. The services know
// no key for a message: a call is made once, and what became of it is said.
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

// Config is asked with every call, so that nothing of AWS is before it is needed.
type Config func(context.Context) (aws.Config, error)

// CallTime ends a call: a VPC without a way to the service would hang it.
const CallTime = 15 * time.Second

// Call makes one call to a service. Its error is classed as package channel says; of
// what the service has said its text has the code alone.
func Call(ctx context.Context, service string, config Config, call func(context.Context, aws.Config) error) error {
	cfg, err := config(ctx)
	if err != nil {
		return fmt.Errorf("%s: configure the AWS SDK: %w", service, err)
	}
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // it would send again
	// Over a connection that was kept, and has died meanwhile, a request leaves and
	// brings no answer.
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

// failure classes the error of a call that may have left.
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

// later reports whether a refusal is one for the moment.
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

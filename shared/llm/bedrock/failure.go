package bedrock

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// failure converts err to an *llm.Error. If ctx has ended, that is the reported cause, because it
// explains any other error.
func failure(ctx context.Context, err error) error {
	if ended := llm.Interrupted(ctx, Name); ended != nil {
		return ended
	}
	return &llm.Error{Class: classOf(err), Provider: Name, RetryAfter: retryAfter(err), Err: clipped(err)}
}

// saying classifies exceptions by their text, in lower case. An empty code matches any exception.
var saying = []struct {
	code, text string
	class      llm.ErrorClass
}{
	{"ValidationException", "input is too long", llm.ClassContextTooLong},
	{"ValidationException", "prompt is too long", llm.ClassContextTooLong},
	{"ValidationException", "exceed context limit", llm.ClassContextTooLong},
	{"ValidationException", "context length", llm.ClassContextTooLong},
	{"ValidationException", "context window", llm.ClassContextTooLong},
	{"ValidationException", "too many input tokens", llm.ClassContextTooLong},
	{"ValidationException", "input tokens exceed", llm.ClassContextTooLong},
	{"ValidationException", "number of input tokens", llm.ClassContextTooLong},
	{"ValidationException", "reduce the length of the", llm.ClassContextTooLong},
	{"ValidationException", "content filter", llm.ClassRefused},
	{"ValidationException", "operation not allowed", llm.ClassAuthentication}, // the account may not use the model
	{"ThrottlingException", "per day", llm.ClassBilling},                      // the daily quota: a retry soon is useless
	{"", "payment instrument", llm.ClassBilling},
	{"", "payment_instrument", llm.ClassBilling},
	{"ResourceNotFoundException", "use case details", llm.ClassAuthentication}, // a form of the model's provider is not filled in
}

func classOf(err error) llm.ErrorClass {
	if _, ok := errors.AsType[*setupError](err); ok {
		return llm.ClassAuthentication
	}
	api, isAPI := errors.AsType[smithy.APIError](err)
	if isAPI {
		code, text := exception(api), strings.ToLower(api.ErrorMessage())
		for _, s := range saying {
			if (s.code == "" || s.code == code) && strings.Contains(text, s.text) {
				return s.class
			}
		}
		if class := classOfCode(code); class != "" {
			return class
		}
	}
	resp, answered := errors.AsType[*smithyhttp.ResponseError](err)
	if errors.Is(err, errTooLong) && (!answered || resp.HTTPStatusCode() < http.StatusBadRequest) {
		return llm.ClassBadRequest // a retry would fail again and cost again
	}
	if answered {
		return classOfStatus(resp.HTTPStatusCode())
	}
	if isAPI && api.ErrorFault() == smithy.FaultClient || badInput(err) {
		return llm.ClassBadRequest
	}
	return llm.ClassUnavailable // not reached, or the answer is invalid
}

// exception returns the name of an exception. For an exception that the SDK does not expect within
// a stream, the SDK reports the member's name, which begins with a lower-case letter.
func exception(e smithy.APIError) string {
	code := e.ErrorCode()
	if code == "" {
		return ""
	}
	return strings.ToUpper(code[:1]) + code[1:]
}

// classOfCode returns the class of Bedrock's exceptions, and of those with which AWS refuses a
// signature. It returns "" for others.
func classOfCode(code string) llm.ErrorClass {
	switch code {
	case "ThrottlingException", "TooManyRequestsException":
		return llm.ClassRateLimit
	case "ServiceQuotaExceededException": // a limit of the account that a person must raise
		return llm.ClassBilling
	case "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignatureException",
		"ExpiredTokenException", "ExpiredToken", "InvalidClientTokenId", "MissingAuthenticationTokenException",
		"SignatureDoesNotMatch", "InvalidTokenException", "OptInRequired", "NotAuthorized":
		return llm.ClassAuthentication
	case "ServiceUnavailableException", "ModelNotReadyException", "InternalServerException", "ModelErrorException", "ModelStreamErrorException":
		return llm.ClassUnavailable
	case "ModelTimeoutException":
		return llm.ClassTimeout
	case "ValidationException", "ResourceNotFoundException":
		return llm.ClassBadRequest
	}
	return ""
}

func classOfStatus(status int) llm.ErrorClass {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return llm.ClassAuthentication
	case status == http.StatusPaymentRequired:
		return llm.ClassBilling
	case status == http.StatusTooManyRequests:
		return llm.ClassRateLimit
	case status == http.StatusRequestTimeout:
		return llm.ClassTimeout
	case status == http.StatusRequestEntityTooLarge:
		return llm.ClassContextTooLong
	case status >= 400 && status < 500:
		return llm.ClassBadRequest
	}
	return llm.ClassUnavailable
}

// badInput reports whether the SDK refused to send the request.
func badInput(err error) bool {
	_, invalid := errors.AsType[smithy.InvalidParamsError](err)
	_, pointer := errors.AsType[*smithy.InvalidParamsError](err)
	_, unwritten := errors.AsType[*smithy.SerializationError](err)
	return invalid || pointer || unwritten
}

// longestWait limits the Retry-After that we accept.
const longestWait = 24 * time.Hour

// retryAfter returns how long the response asks us to wait. A date is compared with the response's
// own Date, so that our clock does not matter.
func retryAfter(err error) time.Duration {
	resp, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || resp.Response == nil {
		return 0
	}
	header := resp.Response.Header
	value := strings.TrimSpace(header.Get("Retry-After"))
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if until, err := http.ParseTime(value); err == nil {
		if now, err := http.ParseTime(header.Get("Date")); err == nil {
			wait = until.Sub(now)
		}
	}
	return min(max(wait, 0), longestWait)
}

// maxText limits the text of a cause, in bytes.
const maxText = 2000

// clipped returns err with a text that is short enough for a log.
func clipped(err error) error {
	text := err.Error()
	if len(text) <= maxText {
		return err
	}
	return &longError{err, strings.ToValidUTF8(text[:maxText], "") + "…"}
}

type longError struct {
	err  error
	text string
}

func (e *longError) Error() string { return e.text }
func (e *longError) Unwrap() error { return e.err }

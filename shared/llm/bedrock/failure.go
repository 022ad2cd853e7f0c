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

// failure is err as the *llm.Error it means. The end of ctx comes first: it
// explains whatever else went wrong.
func failure(ctx context.Context, err error) error {
	if ended := llm.Interrupted(ctx, Name); ended != nil {
		return ended
	}
	return &llm.Error{Class: classOf(err), Provider: Name, RetryAfter: retryAfter(err), Err: clipped(err)}
}

// saying are the failures that only the text of an exception tells apart, in lower
// case, of an exception of any name where none is given.
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
	{"ThrottlingException", "per day", llm.ClassBilling},                      // the day's quota: no use in trying soon
	{"", "payment instrument", llm.ClassBilling},
	{"", "payment_instrument", llm.ClassBilling},
	{"ResourceNotFoundException", "use case details", llm.ClassAuthentication}, // a form of the provider's is not filled in
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
		return llm.ClassBadRequest // it would come again, and is paid for each time
	}
	if answered {
		return classOfStatus(resp.HTTPStatusCode())
	}
	if isAPI && api.ErrorFault() == smithy.FaultClient || badInput(err) {
		return llm.ClassBadRequest
	}
	return llm.ClassUnavailable // not reached, or an answer that is none
}

// exception is the name of an exception. One that the SDK does not expect within a
// stream has the name of its member there, with a small letter.
func exception(e smithy.APIError) string {
	code := e.ErrorCode()
	if code == "" {
		return ""
	}
	return strings.ToUpper(code[:1]) + code[1:]
}

// classOfCode is the class of Bedrock's exceptions, and of those with which AWS
// refuses a signature; empty for others.
func classOfCode(code string) llm.ErrorClass {
	switch code {
	case "ThrottlingException", "TooManyRequestsException":
		return llm.ClassRateLimit
	case "ServiceQuotaExceededException": // a limit of the account, which a person has to raise
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

// badInput reports whether the SDK would not send the request.
func badInput(err error) bool {
	_, invalid := errors.AsType[smithy.InvalidParamsError](err)
	_, pointer := errors.AsType[*smithy.InvalidParamsError](err)
	_, unwritten := errors.AsType[*smithy.SerializationError](err)
	return invalid || pointer || unwritten
}

// longestWait bounds what is believed of a Retry-After.
const longestWait = 24 * time.Hour

// retryAfter is how long the response asks to wait. A date counts from the
// response's own, so that no clock of ours is needed.
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

// maxText bounds the text of a cause, in bytes.
const maxText = 2000

// clipped is err with a text that is not too long for a log.
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

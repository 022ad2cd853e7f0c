package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Failure is what a provider says in place of an answer. Its text is the provider's.
type Failure struct {
	Status  int    // of HTTP; within an answer the one that its error names, or 0
	Type    string // such as rate_limit_error
	Code    string // such as insufficient_quota
	Message string
}

// Error implements error.
func (f *Failure) Error() string {
	var parts []string
	if f.Status != 0 {
		parts = append(parts, "HTTP "+strconv.Itoa(f.Status))
	}
	for _, s := range []string{f.Type, f.Code, strings.TrimSpace(f.Message)} {
		if s != "" && (len(parts) == 0 || s != parts[len(parts)-1]) {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

func readFailure(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil && len(body) == 0 {
		return &Failure{Status: resp.StatusCode, Message: "the answer was cut off"}
	}
	return ParseFailure(resp.StatusCode, body)
}

// ParseFailure reads an error, in any of the shapes in use; what it can't read it
// takes for the message. Status 0 means that the error stands within an answer.
func ParseFailure(status int, body []byte) *Failure {
	var in struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
		said
	}
	one := bytes.TrimSpace(body)
	if list := []json.RawMessage(nil); json.Unmarshal(one, &list) == nil && len(list) > 0 {
		one = list[0]
	}
	if json.Unmarshal(one, &in) != nil {
		return &Failure{Status: status, Message: string(body)}
	}
	f := &Failure{Status: status}
	inner := said{}
	switch {
	case string(in.Error) != "null" && json.Unmarshal(in.Error, &inner) == nil: // OpenAI, Anthropic and most others
		f.Type, f.Code, f.Message = inner.Type, inner.Code.text, inner.Message.text
	case string(in.Error) != "null" && json.Unmarshal(in.Error, &f.Message) == nil: // {"error": "…"}
	default: // {"object": "error", "message": "…"}, {"detail": …}
		f.Type, f.Code, f.Message = in.Type, in.Code.text, in.Message.text
	}
	if f.Type == "" && f.Code == "" && f.Message == "" {
		f.Message = cmp.Or(string(in.Detail), string(body))
	}
	if n, err := strconv.Atoi(f.Code); err == nil && status == 0 && n >= 300 && n < 600 {
		f.Status = n
	}
	return f
}

// said is an error as most providers write it.
type said struct {
	Type    string `json:"type"`
	Code    loose  `json:"code"`
	Message loose  `json:"message"`
}

// loose is a text where some write a number, or something else.
type loose struct{ text string }

func (l *loose) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &l.text) != nil {
		l.text = string(raw)
	}
	return nil
}

// classOf is the class of what went wrong while the context was alive.
func classOf(err error) llm.ErrorClass {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.class()
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over || errors.Is(err, ErrTooLong) || errors.Is(err, ErrTooMuch) {
		return llm.ClassBadRequest // it would come again, and is paid for each time
	}
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return llm.ClassTimeout
	}
	return llm.ClassUnavailable // not reached, cut off, or malformed
}

// class goes by the name of the error first where the status says less, by the
// words of the message where the name says nothing, and by the status otherwise.
func (f *Failure) class() llm.ErrorClass {
	named := cmp.Or(names[strings.ToLower(f.Code)], names[strings.ToLower(f.Type)])
	switch named {
	case llm.ClassBilling, llm.ClassContextTooLong, llm.ClassRefused, llm.ClassOverloaded:
		return named
	}
	if f.Status != http.StatusUnauthorized && f.Status < 500 {
		text := strings.ToLower(f.Message)
		for _, w := range words {
			if strings.Contains(text, w.text) {
				return w.class
			}
		}
	}
	return cmp.Or(classOfStatus(f.Status), named, llm.ClassUnavailable)
}

// classOfStatus is the class of a status of HTTP, "" for none.
func classOfStatus(status int) llm.ErrorClass {
	switch status {
	case 0:
		return ""
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return llm.ClassAuthentication
	case http.StatusPaymentRequired:
		return llm.ClassBilling
	case http.StatusRequestTimeout:
		return llm.ClassTimeout
	case http.StatusRequestEntityTooLarge:
		return llm.ClassContextTooLong
	case http.StatusTooManyRequests:
		return llm.ClassRateLimit
	case http.StatusServiceUnavailable, 529: // Anthropic's own
		return llm.ClassOverloaded
	case http.StatusConflict, http.StatusTooEarly:
		return llm.ClassUnavailable
	}
	if status >= 500 {
		return llm.ClassUnavailable
	}
	return llm.ClassBadRequest // a redirect too: the base URL is wrong
}

// longestWait bounds what is believed of a Retry-After.
const longestWait = 24 * time.Hour

// retryAfter is how long a response asks to wait: in milliseconds, in seconds, or
// until a date, which counts from the response's own, so that no clock of ours is
// needed. 0: it does not ask.
func retryAfter(header http.Header) time.Duration {
	number := func(name string, unit time.Duration) (time.Duration, bool) {
		n, err := strconv.ParseFloat(strings.TrimSpace(header.Get(name)), 64)
		if err != nil || n != n {
			return 0, false
		}
		return time.Duration(min(max(n, 0), float64(longestWait/unit)) * float64(unit)), true
	}
	if wait, ok := number("Retry-After-Ms", time.Millisecond); ok {
		return wait
	}
	if wait, ok := number("Retry-After", time.Second); ok {
		return wait
	}
	until, err := http.ParseTime(header.Get("Retry-After"))
	now, errNow := http.ParseTime(header.Get("Date"))
	if err != nil || errNow != nil {
		return 0
	}
	return min(max(until.Sub(now), 0), longestWait)
}

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
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Failure is what a provider sends instead of an answer. Its text is the provider's.
type Failure struct {
	Status  int    // of HTTP; for an error inside an answer, the status that the error names, or 0
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

// ParseFailure parses an error in any of the usual forms. A body that it can't parse becomes the
// message. Status 0 means that the error is inside an answer.
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

// said is an error in the form that most providers use.
type said struct {
	Type    string `json:"type"`
	Code    loose  `json:"code"`
	Message loose  `json:"message"`
}

// loose is a text. If a server sends another JSON value, such as a number, it holds that JSON.
type loose struct{ text string }

func (l *loose) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &l.text) != nil {
		l.text = string(raw)
	}
	return nil
}

// classOf returns the class of an error that occurred while the context was alive.
func classOf(err error) llm.ErrorClass {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.class()
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over || errors.Is(err, ErrTooLong) || errors.Is(err, ErrTooMuch) {
		return llm.ClassBadRequest // a retry would fail again and cost again
	}
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return llm.ClassTimeout
	}
	return llm.ClassUnavailable // not reached, cut off, or malformed
}

// class returns the failure's class. An error name that says more than the status comes first. Then
// it looks for known words in the message. Otherwise the status decides, then the name.
func (f *Failure) class() llm.ErrorClass {
	named := cmp.Or(names[strings.ToLower(f.Code)], names[strings.ToLower(f.Type)])
	switch named {
	case llm.ClassBilling, llm.ClassContextTooLong, llm.ClassRefused, llm.ClassOverloaded, llm.ClassUnavailable:
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
	if f.Status == http.StatusForbidden && strings.HasPrefix(strings.TrimSpace(f.Message), "<") {
		return llm.ClassBadRequest // a firewall's page: it dislikes this request, and the key may be right
	}
	return cmp.Or(classOfStatus(f.Status), named, llm.ClassUnavailable)
}

// classOfStatus returns the class of an HTTP status, or "" for 0.
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
	case http.StatusServiceUnavailable, 529: // 529 is Anthropic's own
		return llm.ClassOverloaded
	case http.StatusConflict, http.StatusTooEarly:
		return llm.ClassUnavailable
	}
	if status >= 500 {
		return llm.ClassUnavailable
	}
	return llm.ClassBadRequest // includes redirects: the base URL is wrong
}

// longestWait limits the Retry-After that we accept.
const longestWait = 24 * time.Hour

// retryAfter returns how long a response asks us to wait, or 0. The header holds milliseconds,
// seconds, or a date. A date is compared with the response's own Date, so that our clock does not
// matter.
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

var namedWait = pattern.New(`(?i)\b(?:retry|try again) in ((?:\d+(?:\.\d+)?(?:h|ms|m|s))+)`)

// waitIn returns how long a message asks us to wait, or 0. Gemini says it nowhere else.
func waitIn(message string) time.Duration {
	said := namedWait().FindStringSubmatch(message)
	if said == nil {
		return 0
	}
	wait, err := time.ParseDuration(said[1])
	if err != nil {
		return 0
	}
	return min(wait, longestWait)
}

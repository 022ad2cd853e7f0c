package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/schema"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Limits of an answer, in bytes.
const (
	// MaxAnswer is how much of an answer is read.
	MaxAnswer = 1 << 20
	// MaxQuote is how much of an answer an error quotes.
	MaxQuote = 1 << 10
)

// read returns the value of a 2xx answer, and an error for any other. effect says that the request
// may have had an effect.
func read(resp *http.Response, secrets Secrets, effect bool) (any, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	media := mediaType(resp.Header)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		quote := ""
		if isText(media) {
			quote = string(body[:min(len(body), MaxAnswer)])
		}
		return nil, Refused(resp.StatusCode, secrets.Redact(quote), resp.Header, effect)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &skill.UncertainError{Reason: "the connection was cut within the answer"},
			errors.New(secrets.Redact(err.Error())))
	}
	if len(body) > MaxAnswer {
		return nil, skill.Fail(skill.Theirs, "the server has done it (%d), and its answer is longer than 1 MiB: it was not read", resp.StatusCode)
	}
	return secrets.RedactValue(value(body, media, resp.StatusCode)), nil
}

// value converts an answer's body to a JSON value: the JSON itself, a text, or a description of
// content that is neither.
func value(body []byte, media string, status int) any {
	if len(bytes.TrimSpace(body)) == 0 {
		return map[string]any{"status": json.Number(strconv.Itoa(status))}
	}
	if media == "application/json" || strings.HasSuffix(media, "+json") {
		if v, err := schema.Decode(body); err == nil {
			return v
		}
		return map[string]any{"text": strings.ToValidUTF8(string(body), "\uFFFD")}
	}
	if isText(media) {
		return map[string]any{"text": strings.ToValidUTF8(string(body), "\uFFFD")}
	}
	return map[string]any{"contentType": media, "bytes": json.Number(strconv.Itoa(len(body)))}
}

// mediaType returns the media type of an answer, without parameters.
func mediaType(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || len(media) > 100 {
		return "application/octet-stream"
	}
	return media
}

func isText(media string) bool {
	return strings.HasPrefix(media, "text/") || media == "application/json" || strings.HasSuffix(media, "+json") ||
		media == "application/xml" || strings.HasSuffix(media, "+xml")
}

// Refused returns the error of a status that is not 2xx. Its class follows from the status. It
// quotes what the server said as data, at most 1 KiB, unless the failure is ours. said must contain
// no secret. For a request with an effect, a status that only means "no answer in time" returns a
// [skill.UncertainError].
func Refused(status int, said string, h http.Header, effect bool) error {
	class := classOf(status)
	text := fmt.Sprintf("the server answered %d %s", status, http.StatusText(status))
	if effect && slices.Contains(late, status) {
		return &skill.UncertainError{Reason: text}
	}
	if status/100 == 3 {
		text += ", and redirects are not followed"
	}
	if after := retryAfter(h); after != "" {
		text += "; try again " + after
	}
	said = strings.TrimSpace(strings.ToValidUTF8(said, "\uFFFD"))
	if said != "" && class != skill.Ours {
		text += ". It said: " + strconv.Quote(Clip(said))
	}
	return skill.Fail(class, "%s", text)
}

// late lists statuses of a proxy or server that stopped waiting. The server behind it may have
// carried out the request.
var late = []int{http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout}

// classOf returns who is responsible for a status that is not 2xx.
func classOf(status int) skill.Class {
	switch {
	case status == http.StatusRequestTimeout || status == http.StatusTooManyRequests:
		return skill.RateLimit
	case status >= 500:
		return skill.Theirs
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired || status < 400:
		return skill.Ours
	}
	return skill.Input
}

// retryAfter says in our own words when the server accepts a retry. It returns "" without a valid
// Retry-After header.
func retryAfter(h http.Header) string {
	v := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(v, 10, 31); err == nil {
		return fmt.Sprintf("after %d s", seconds)
	}
	if at, err := http.ParseTime(v); err == nil {
		return "after " + at.UTC().Format(time.RFC3339)
	}
	return ""
}

// Clip returns at most [MaxQuote] bytes of s, in whole characters. It marks a cut with "…".
func Clip(s string) string {
	if len(s) <= MaxQuote {
		return s
	}
	n := MaxQuote
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

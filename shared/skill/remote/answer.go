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

	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Bounds of an answer, in bytes.
const (
	// MaxAnswer is the most that is read.
	MaxAnswer = 1 << 20
	// MaxQuote is the most that an error repeats of it.
	MaxQuote = 1 << 10
)

// read makes a value of a good answer and an error of any other; effect says that
// the request may have had one.
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
		return nil, fmt.Errorf("%w: %w", &skill.UncertainError{Reason: "the connection was cut within the answer"}, errors.New(secrets.Redact(err.Error())))
	}
	if len(body) > MaxAnswer {
		return nil, skill.Fail(skill.Theirs, "the server has done it (%d), and its answer is longer than 1 MiB: it was not read", resp.StatusCode)
	}
	return secrets.RedactValue(value(body, media, resp.StatusCode)), nil
}

// value is an answer's body as a JSON value: itself, a text, or what it is.
func value(body []byte, media string, status int) any {
	if len(bytes.TrimSpace(body)) == 0 {
		return map[string]any{"status": json.Number(strconv.Itoa(status))}
	}
	if media == "application/json" || strings.HasSuffix(media, "+json") {
		if v, err := Decode(body); err == nil {
			return v
		}
		return map[string]any{"text": strings.ToValidUTF8(string(body), "\uFFFD")}
	}
	if isText(media) {
		return map[string]any{"text": strings.ToValidUTF8(string(body), "\uFFFD")}
	}
	return map[string]any{"contentType": media, "bytes": json.Number(strconv.Itoa(len(body)))}
}

// Decode reads one JSON value and keeps its numbers as they are written.
func Decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// mediaType is the type of an answer, bounded, without parameters.
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

// Refused is the error of a status that is not good, by whose failure it is. What the
// server said is repeated as data, at most 1 KiB of it and not where the failure is
// ours; it must hold no secret any more. A request with an effect is [skill.UncertainError]
// where the status says only that no answer came in time.
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

// late are the statuses of those who did not wait for the end of a request: what they
// stand before may have carried it out.
var late = []int{http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout}

// classOf is whose failure a status that is not good is.
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

// retryAfter is when the server wants to be asked again, in words of ours.
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

// Clip is at most [MaxQuote] bytes of s, whole characters.
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

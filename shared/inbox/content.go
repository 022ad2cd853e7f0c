package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

const (
	// MaxBody is the largest body of a delivery, in bytes. Lambda takes no larger event.
	MaxBody  = 6 << 20
	maxDepth = 64      // levels of a JSON body
	maxItems = 250_000 // members and elements of a JSON body; decoded, each takes about 100 bytes
	maxID    = 255
	maxEvent = 255

	maxKept       = 64 // headers
	maxKeptValue  = 1 << 10
	maxKeptHeader = 16 << 10 // bytes of all together
	maxFields     = 1000     // fields of a form
	maxChallenge  = 1 << 10
)

// contentType is the stored header that says how a body is decoded. One that can't be stored is stored without its
// parameters.
const contentType = "content-type"

const formType = "application/x-www-form-urlencoded"

// ContentError says why the content of a verified request can't be accepted. Its text repeats
// nothing of the request.
type ContentError struct {
	Why         string
	Unsupported bool   // the media type is the reason
	Repeated    string // the header that occurs more than once, if that is the reason
}

func (e *ContentError) Error() string { return e.Why }

// Content is the content of a verified request.
type Content struct {
	ID     string // of the delivery: the provider's, or the digest of the body
	Event  string // such as issues.opened; empty: the request does not say
	Digest string // SHA-256 of the body, in hex; of an event of Stripe without the count that changes between tries
	// Challenge is the text that Slack expects back when it checks the address. Such a request is
	// not a delivery.
	Challenge string
	// Quiet says that the sender takes an empty answer only: a person waits for it in Slack.
	Quiet   bool
	Headers map[string]string // by lower-case name, without credentials
}

// Read decodes the content of a verified request. Its error is a [ContentError].
func (s Source) Read(r Request) (Content, error) {
	c := Content{Headers: s.storedHeaders(r.Header)}
	body, err := decodeBody(c.Headers[contentType], r.Body) // as [PlanFor] does
	if err != nil {
		return Content{}, err
	}
	sum := sha256.Sum256(s.lasting(r.Body, body))
	c.Digest = hex.EncodeToString(sum[:])
	if challenge := challengeOf(body); s.Kind == Slack && challenge != "" {
		c.Challenge = challenge
		return c, nil
	}
	if name := s.idHeader(r.Header); name != "" && len(r.Header.Values(name)) > 1 {
		return Content{}, &ContentError{Why: "the header with the delivery's id occurs more than once", Repeated: name}
	}
	ce, err := cloudEvent(r.Header, body)
	if err != nil {
		return Content{}, err
	}
	media, _, _ := mime.ParseMediaType(c.Headers[contentType])
	c.Quiet = s.Kind == Slack && media == formType // commands, buttons and modals; its events are JSON
	env := environment{"body": body, "headers": c.Headers}
	c.ID, c.Event = s.idOf(r.Header, env, ce), s.eventOf(r.Header, body, ce)
	switch {
	case c.ID == "":
		c.ID = "sha256:" + c.Digest
	case len(c.ID) > maxID || !storable(c.ID):
		id := sha256.Sum256([]byte(c.ID))
		c.ID = "sha256:" + hex.EncodeToString(id[:])
	}
	if len(c.Event) > maxEvent || !storable(c.Event) {
		c.Event = ""
	}
	return c, nil
}

// lasting returns what is the same in each try of a delivery: the raw body, and of an event of Stripe its members
// without pending_webhooks, the number of endpoints that have not taken the event yet.
func (s Source) lasting(raw []byte, body any) []byte {
	const pending = "pending_webhooks"
	event, _ := body.(map[string]any)
	if _, counts := event[pending]; s.Kind != Stripe || !counts {
		return raw
	}
	event = maps.Clone(event)
	delete(event, pending)
	text, _ := jsonscan.Encode(event) // decoded JSON always encodes
	return []byte(text)
}

// storable reports whether the database can store a text as one line: valid UTF-8 without control
// characters.
func storable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// idHeader returns the name of the header that holds the id of a delivery, or an empty text if no
// header does.
func (s Source) idHeader(h http.Header) string {
	switch s.Kind {
	case GitHub:
		return "X-Github-Delivery"
	case Standard:
		return standardFamily(h) + "Id"
	case HMAC, Token:
		if name, is := headerIn(s.IDPath); is {
			return textproto.CanonicalMIMEHeaderKey(name)
		}
	}
	return ""
}

// idOf returns the provider's id of a delivery, which is the same when the provider repeats it. It
// returns an empty text if there is none.
func (s Source) idOf(h http.Header, env environment, ce *event) string {
	if name := s.idHeader(h); name != "" {
		return h.Get(name) // even if the header is not stored
	}
	switch s.Kind {
	case Stripe:
		return env.text("body.id")
	case Slack:
		if id := env.text("body.event_id"); id != "" {
			return id
		}
		return env.text("body.trigger_id")
	case HMAC, Token:
		if s.IDPath != "" {
			return env.text(s.IDPath)
		}
		if ce != nil {
			return ce.source + " " + ce.id
		}
	}
	return ""
}

// eventOf returns the name of the event, or an empty text if the request has none.
func (s Source) eventOf(h http.Header, body any, ce *event) string {
	env := environment{"body": body}
	switch s.Kind {
	case GitHub:
		name := h.Get("X-Github-Event")
		if action := env.text("body.action"); action != "" {
			return name + "." + action
		}
		return name
	case Slack:
		for _, path := range []string{"body.event.type", "body.command", "body.type"} {
			if event := env.text(path); event != "" {
				return event
			}
		}
		return ""
	case Stripe, Standard, HMAC, Token:
	}
	if ce != nil {
		return ce.kind
	}
	if event := env.text("body.type"); event != "" {
		return event
	}
	return env.text("body.event")
}

// event holds the attributes of a CloudEvent.
type event struct{ id, source, kind string }

// cloudEvent reads a CloudEvent, in structured or binary mode. It returns nil for any other
// request.
func cloudEvent(h http.Header, body any) (*event, error) {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	var e event
	var version string
	switch env := (environment{"body": body}); {
	case media == "application/cloudevents-batch+json":
		return nil, &ContentError{Why: "batches of CloudEvents are not taken: send them one by one", Unsupported: true}
	case media == "application/cloudevents+json":
		version = env.text("body.specversion")
		e = event{env.text("body.id"), env.text("body.source"), env.text("body.type")}
	case h.Get("Ce-Specversion") != "":
		version = h.Get("Ce-Specversion")
		e = event{h.Get("Ce-Id"), h.Get("Ce-Source"), h.Get("Ce-Type")}
	default:
		return nil, nil
	}
	if version != "1.0" {
		return nil, &ContentError{Why: "the CloudEvent's specversion is not 1.0"}
	}
	if e.id == "" || e.source == "" || e.kind == "" {
		return nil, &ContentError{Why: "the CloudEvent lacks id, source or type"}
	}
	return &e, nil
}

// challengeOf returns the challenge of a request by which Slack checks the address, or an empty
// text for any other request.
func challengeOf(body any) string {
	env := environment{"body": body}
	challenge := env.text("body.challenge")
	if env.text("body.type") != "url_verification" || len(challenge) > maxChallenge || !printable(challenge) {
		return ""
	}
	return challenge
}

// decodeBody decodes a body as JSON, as a form, or as text. A form that is a JSON object or list is read as
// that: curl and some libraries declare a form unless they are told otherwise. Numbers are [json.Number].
func decodeBody(declared string, body []byte) (any, error) {
	media, _, _ := mime.ParseMediaType(declared)
	form := media == formType
	if form && !startsJSON(body) {
		return decodeForm(body)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	if !utf8.Valid(body) {
		return nil, &ContentError{Why: "the body is not UTF-8 text", Unsupported: true}
	}
	v, err := decodeJSON(body)
	if errors.Is(err, errNotJSON) && form {
		return decodeForm(body)
	}
	if errors.Is(err, errNotJSON) && media != "application/json" && !strings.HasSuffix(media, "+json") {
		return string(body), nil
	}
	if err != nil {
		return nil, &ContentError{Why: "the body " + err.Error()}
	}
	return v, nil
}

// startsJSON reports whether a body begins as a JSON object or list does.
func startsJSON(body []byte) bool {
	body = bytes.TrimSpace(body)
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

var (
	errDeep    = errors.New("is JSON of more than 64 levels")
	errMany    = errors.New("is JSON of more than 250000 values")
	errNotJSON = errors.New("is not JSON, which its Content-Type says")
)

func decodeJSON(body []byte) (v any, err error) {
	if err := bounded(body); err != nil {
		return nil, err
	}
	if jsonscan.Decode(body, &v) != nil {
		return nil, errNotJSON
	}
	return v, nil
}

// bounded returns an error if JSON has more than maxDepth levels or maxItems values. It counts the
// brackets and commas outside of strings.
func bounded(body []byte) error {
	depth, items, quoted, escaped := 0, 1, false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			items++
			if depth++; depth > maxDepth {
				return errDeep
			}
		case c == ',':
			items++
		case c == '}' || c == ']':
			depth--
		}
		if items > maxItems {
			return errMany
		}
	}
	return nil
}

// decodeForm decodes a form. If its field payload is JSON, as GitHub and Slack send it, decodeForm
// returns that.
func decodeForm(body []byte) (any, error) {
	fields, err := url.ParseQuery(string(body))
	if err != nil || !utf8.Valid(body) || bytes.Count(body, []byte("&")) >= maxFields {
		return nil, &ContentError{Why: "the body is not a form of 1000 fields at most, which its Content-Type says"}
	}
	if payload := activity.Text(fields.Get("payload")); payload != "" {
		v, err := decodeJSON([]byte(payload))
		if err == nil {
			return v, nil
		}
		if !errors.Is(err, errNotJSON) {
			return nil, &ContentError{Why: "the body " + err.Error()}
		}
	}
	out := map[string]any{}
	for name, values := range fields {
		out[activity.Text(name)] = activity.Text(values[0]) // a percent-encoded value may hold any bytes
	}
	return out, nil
}

// storedHeaders returns the headers to store: those that rules may read, without credentials.
func (s Source) storedHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	size := 0
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		lower, value := strings.ToLower(name), h.Get(name)
		if lower == contentType && (len(value) > maxKeptValue || !storable(value)) {
			value, _, _ = mime.ParseMediaType(value)
		}
		if s.hides(lower) || len(value) > maxKeptValue || !storable(value) || !storable(lower) {
			continue
		}
		if size += len(lower) + len(value); size > maxKeptHeader || len(out) == maxKept {
			break
		}
		out[lower] = value
	}
	return out
}

// hides reports whether a header is never stored.
func (s Source) hides(name string) bool {
	return credential(strings.ToLower(name)) || strings.EqualFold(name, s.Header)
}

// credential reports whether a header with this name may hold a credential.
func credential(name string) bool {
	for _, part := range []string{"auth", "cookie", "signature", "secret", "token", "password", "credential", "key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// encodeHeaders returns headers as JSON. It does not escape characters for HTML, because six bytes
// for one character could exceed the limit of the row.
func encodeHeaders(h map[string]string) (string, error) {
	return jsonscan.Encode(h)
}

func uuidLike(s string) bool { return uuid.Validate(s) == nil }

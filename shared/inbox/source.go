package inbox

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Kind says how the requests of a source are signed.
type Kind string

// The kinds of sources.
const (
	GitHub   Kind = "github"
	Stripe   Kind = "stripe"
	Slack    Kind = "slack"
	Standard Kind = "standard" // Standard Webhooks
	HMAC     Kind = "hmac"     // HMAC-SHA256 of the body in a header
	Token    Kind = "token"    // the secret itself in a header
)

var kinds = []Kind{GitHub, Stripe, Slack, Standard, HMAC, Token}

// Kinds lists the kinds of sources.
func Kinds() []Kind { return slices.Clone(kinds) }

// Encoding is the encoding of the signature of a source of kind [HMAC].
type Encoding string

// The encodings.
const (
	Hex    Encoding = "hex"
	Base64 Encoding = "base64"
)

// The following values limit a workspace and a source.
const (
	MaxSources = 100 // per workspace
	MinSecret  = 16  // bytes
	MaxSecret  = 1024
	maxHeader  = 100
	maxPrefix  = 100
)

var (
	// ErrNotFound says that there is no such source.
	ErrNotFound = errors.New("there is no such webhook source")
	// ErrTaken says that the workspace already has a source of that name.
	ErrTaken = errors.New("a webhook source of that name exists")
	// ErrChanged says that someone else changed the source after it was read.
	ErrChanged = errors.New("the webhook source has been changed meanwhile")
	// ErrFull says that the workspace has [MaxSources] sources.
	ErrFull = errors.New("the workspace has as many webhook sources as it may")
)

// Source is a sender of webhooks to a workspace.
type Source struct {
	ID   string
	Name string // part of its address
	Kind Kind
	// Header, Encoding, Prefix and IDPath belong to the kinds [HMAC] and [Token]. They say where a
	// request has its signature or token, and where it has the delivery's id, such as body.id.
	Header   string
	Encoding Encoding
	Prefix   string
	IDPath   string
	Rules    []Rule
	Enabled  bool
	// Hook is the webhook of GitHub that sends to the source; nil: missing deliveries are not
	// fetched.
	Hook   *Hook
	Caught *CatchUp // how far it has caught up; nil: it has not begun
	// OldUntil is when the previous secret expires; nil: there is none.
	OldUntil   *time.Time
	Rejected   int64 // requests with a wrong signature
	RejectedAt *time.Time
	Version    int
	CreatedBy  string
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

var (
	legalName   = pattern.New(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	legalSlug   = pattern.New(`^[a-z0-9][a-z0-9-]{0,62}$`)
	legalHeader = pattern.New(`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`)
)

// Addressable reports whether a source may have this address. No source has any other address.
func Addressable(slug, name string) bool {
	return legalSlug().MatchString(slug) && legalName().MatchString(name)
}

// check validates a source, fills in defaults, and reports all problems in one [problem.InvalidError].
func (s *Source) check() error {
	bad := &problem.InvalidError{}
	bad.If(!legalName().MatchString(s.Name), "name",
		"must have 1 to 63 lower-case letters, digits, - and _ that begin with a letter or a digit")
	bad.If(uuidLike(s.Name), "name", "must not look like an id")
	bad.If(!slices.Contains(kinds, s.Kind), "kind", "must be github, stripe, slack, standard, hmac or token")
	s.checkSettings(bad)
	if s.Hook != nil {
		s.Hook.check(bad, s.Kind)
	}
	checkRules(bad, s.Rules)
	s.checkHeaders(bad)
	return bad.OrNil()
}

// checkSettings validates the settings that only some kinds have.
func (s *Source) checkSettings(bad *problem.InvalidError) {
	if s.Kind != HMAC && s.Kind != Token {
		for field, value := range map[string]string{"header": s.Header, "encoding": string(s.Encoding), "prefix": s.Prefix, "idPath": s.IDPath} {
			bad.If(value != "", field, "goes with the kinds hmac and token only")
		}
		return
	}
	switch {
	case s.Kind == Token && s.Header == "":
		s.Header, s.Prefix = "Authorization", "Bearer "
	case s.Header == "":
		s.Header = "X-Signature"
	}
	bad.If(len(s.Header) > maxHeader || !legalHeader().MatchString(s.Header), "header",
		"must be the name of a header, of 100 characters at most")
	s.Header = textproto.CanonicalMIMEHeaderKey(s.Header)
	bad.If(len(s.Prefix) > maxPrefix || !printable(s.Prefix), "prefix", "may have 100 visible ASCII characters at most")
	if s.Kind == Token {
		bad.If(s.Encoding != "", "encoding", "goes with the kind hmac only")
	} else if s.Encoding == "" {
		s.Encoding = Hex
	}
	bad.If(s.Encoding != "" && s.Encoding != Hex && s.Encoding != Base64, "encoding", "must be hex or base64")
	name, inHeader := headerIn(s.IDPath)
	inBody := s.IDPath == "body" || strings.HasPrefix(s.IDPath, "body.")
	bad.If(s.IDPath != "" && !(legalPath(s.IDPath) && (inHeader || inBody)), "idPath",
		"must be a path such as body.id or headers.x-request-id")
	bad.If(inHeader && strings.EqualFold(name, s.Header), "idPath", "must not be the header of the signature or the token")
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// CheckSecret returns an error for an invalid secret of a source of this kind. An empty secret is
// invalid, because anyone could sign with it.
func CheckSecret(k Kind, v secret.Value) error {
	text := v.Reveal()
	bad := &problem.InvalidError{}
	switch {
	case text == "":
		bad.If(true, "secret", "must not be empty: anyone could sign with it")
	case len(text) < MinSecret || len(text) > MaxSecret:
		bad.If(true, "secret", "must have 16 to 1024 bytes")
	case strings.TrimSpace(text) != text || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		bad.If(true, "secret", "must have no control characters, and no spaces around it")
	case k == Token:
		bad.If(!printable(text), "secret", "must have visible ASCII characters only, as a header does")
	case k == Standard:
		_, ok := standardKey(text)
		bad.If(!ok, "secret", "must be whsec_ and the base64 of 16 bytes or more")
	}
	return bad.OrNil()
}

// NewSecret generates a secret for a source whose sender accepts one. Errors:
// [problem.InvalidError] for Stripe and Slack, which generate their own secrets.
func NewSecret(k Kind) (secret.Value, error) {
	if k == Stripe || k == Slack {
		return secret.Value{}, problem.Invalid("secret", "is missing: the provider makes it, and shows it where the webhook is set up")
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails
	if k == Standard {
		return secret.NewValue("whsec_" + base64.StdEncoding.EncodeToString(key)), nil
	}
	return secret.NewValue(hex.EncodeToString(key)), nil
}

// standardKey decodes a secret of Standard Webhooks. Supabase writes the version of the signature before it: v1,whsec_…
func standardKey(text string) ([]byte, bool) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimPrefix(text, "v1,"), "whsec_"))
	return key, err == nil && len(key) >= MinSecret
}

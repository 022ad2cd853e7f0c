package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// jws is a parsed token in compact form. It is not verified yet.
type jws struct {
	text           string
	header, claims members
	payload        []byte // the claims as they were sent
	alg            jose.SignatureAlgorithm
	typ, kid       string
}

// foreign lists header members that change how a token is read, or say where to get its key. None
// of our issuers needs them.
var foreign = []string{"crit", "b64", "zip", "enc", "jku", "jwk", "x5u", "x5c"}

// parseJWS parses a token. It is stricter than the library: each token has only one valid spelling,
// and its members occur once and in lower case.
func parseJWS(token string) (*jws, error) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return nil, ErrInvalid
	}
	var content [3][]byte
	for i, part := range parts {
		var err error
		if content[i], err = decodeSegment(part); err != nil || len(content[i]) == 0 {
			return nil, ErrInvalid
		}
	}
	t := &jws{text: token, payload: content[1]}
	var err error
	if t.header, err = parseMembers(content[0], "alg", "typ", "kid", "cty", "crit", "b64", "zip", "enc", "jku", "jwk",
		"x5u", "x5c"); err != nil {
		return nil, ErrInvalid
	}
	if t.claims, err = parseMembers(content[1], registered...); err != nil {
		return nil, ErrInvalid
	}
	for _, name := range foreign {
		if _, there := t.header[name]; there {
			return nil, ErrInvalid
		}
	}
	alg, err1 := t.header.text("alg")
	typ, err2 := t.header.text("typ")
	kid, err3 := t.header.text("kid")
	cty, err4 := t.header.text("cty") // set for a token within a token
	if errors.Join(err1, err2, err3, err4) != nil || cty != "" {
		return nil, ErrInvalid
	}
	t.alg, t.typ, t.kid = jose.SignatureAlgorithm(alg), strings.ToLower(typ), kid
	return t, nil
}

// verify checks the signature. The key decides the algorithm: the token must name the same one.
func (t *jws) verify(alg jose.SignatureAlgorithm, key any) error {
	if t.alg != alg {
		return ErrInvalid
	}
	signed, err := jose.ParseSignedCompact(t.text, []jose.SignatureAlgorithm{alg})
	if err != nil {
		return ErrInvalid
	}
	if _, err := signed.Verify(key); err != nil {
		return ErrInvalid
	}
	return nil
}

// sign creates a token of our own.
func sign(key []byte, typ string, claims any) (secret.Value, error) {
	if len(key) < minKey {
		return secret.Value{}, errShortKey
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return secret.Value{}, fmt.Errorf("sign a token: %w", err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key}, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		return secret.Value{}, fmt.Errorf("sign a token: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return secret.Value{}, fmt.Errorf("sign a token: %w", err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		return secret.Value{}, fmt.Errorf("sign a token: %w", err)
	}
	return secret.NewValue(text), nil
}

// read decodes the claims of a token that we have signed.
func (t *jws) read(claims any) error {
	if err := json.Unmarshal(t.payload, claims); err != nil {
		return fmt.Errorf("read a token of ours: %w", err)
	}
	return nil
}

// minKey is the least size of an HS256 key in bytes: the size of its hash.
const minKey = 32

var errShortKey = errors.New("a key that signs tokens has at least 32 bytes")

// decodeSegment decodes base64url. It refuses any second spelling of the same bytes.
func decodeSegment(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder ignores them
		return nil, ErrInvalid
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// members holds the members of a JSON object.
type members map[string]json.RawMessage

// parseMembers parses a JSON object. No name may occur twice. At the top level, names that differ
// only in case count as equal, and known names must be written exactly.
func parseMembers(raw []byte, known ...string) (members, error) {
	var m members
	if !utf8.Valid(raw) || !unambiguous(raw) || json.Unmarshal(raw, &m) != nil || m == nil {
		return nil, ErrInvalid
	}
	seen := map[string]bool{}
	for name := range m {
		f := fold(name)
		if seen[f] || f != name && slices.Contains(known, f) {
			return nil, ErrInvalid
		}
		seen[f] = true
	}
	return m, nil
}

// fold maps names to one case. Other readers may treat such names as equal, including those with
// the long s and the Kelvin sign.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }

// unambiguous reports whether no object in a JSON text has a member twice. It refuses deep nesting.
func unambiguous(raw []byte) bool {
	var open []map[string]bool // the names of each open object; nil for an open list
	named := false             // a name comes next, unless the object ends
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return false
		}
		name, _ := token.(string)
		switch {
		case named && token != json.Delim('}'):
			if open[len(open)-1][name] {
				return false
			}
			open[len(open)-1][name] = true
			named = false
			continue
		case len(open) > maxDepth:
			return false
		case token == json.Delim('{'):
			open = append(open, map[string]bool{})
		case token == json.Delim('['):
			open = append(open, nil)
		case token == json.Delim('}'), token == json.Delim(']'):
			open = open[:len(open)-1]
		}
		named = len(open) > 0 && open[len(open)-1] != nil
	}
}

const maxDepth = 32

// text returns a member that must be a non-empty text, or "" if it is missing.
func (m members) text(name string) (string, error) {
	raw, there := m[name]
	if !there {
		return "", nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil || *s == "" {
		return "", ErrInvalid
	}
	return *s, nil
}

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

// jws is a signed token in its compact form, taken apart and not yet verified.
type jws struct {
	text           string
	header, claims members
	payload        []byte // the claims as they were sent
	alg            jose.SignatureAlgorithm
	typ, kid       string
}

// foreign are members of a header that change how a token is read, or say where to
// get its key from. None of our issuers needs one.
var foreign = []string{"crit", "b64", "zip", "enc", "jku", "jwk", "x5u", "x5c"}

// parseJWS takes a token apart. What the library reads kindly is refused here: a
// token is spelled in one way only, its members once and in small letters.
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
	if t.header, err = parseMembers(content[0], "alg", "typ", "kid", "cty", "crit", "b64", "zip", "enc", "jku", "jwk", "x5u", "x5c"); err != nil {
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
	cty, err4 := t.header.text("cty") // a token within a token
	if errors.Join(err1, err2, err3, err4) != nil || cty != "" {
		return nil, ErrInvalid
	}
	t.alg, t.typ, t.kid = jose.SignatureAlgorithm(alg), strings.ToLower(typ), kid
	return t, nil
}

// verify checks the signature. The algorithm is the key's: what the token names
// must be the same.
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

// sign makes a token of ours.
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

// read fills a struct from the claims of a token that we have signed.
func (t *jws) read(claims any) error {
	if err := json.Unmarshal(t.payload, claims); err != nil {
		return fmt.Errorf("read a token of ours: %w", err)
	}
	return nil
}

// minKey is the least bytes of a key of HS256: as many as its hash has.
const minKey = 32

var errShortKey = errors.New("a key that signs tokens has at least 32 bytes")

// decodeSegment undoes base64url and refuses a second spelling of the same bytes.
func decodeSegment(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder leaves them out
		return nil, ErrInvalid
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// members are the members of a JSON object.
type members map[string]json.RawMessage

// parseMembers reads an object. No name may be there twice, at the top not in other
// letters either, and those that are known only as they are written.
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

// fold gives names the same letters that readers elsewhere may take for one, among
// them the long s and the sign for Kelvin.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }

// unambiguous reports whether no object in a JSON text has a member twice. Nothing is
// that deep.
func unambiguous(raw []byte) bool {
	var open []map[string]bool // the names in each object that is open; nil for a list
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

// text is a member that is a text; "" where it is missing.
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

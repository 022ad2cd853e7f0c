package auth_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/auth"
)

// FuzzParse: for any input, the parser says whether it is a token. A token has only one spelling.
func FuzzParse(f *testing.F) {
	good := forge(`{"alg":"HS256","typ":"JWT"}`, `{"sub":"x","exp":1,"a":[{"b":{}}]}`, hs256([]byte(hsSecret)))
	f.Add(good)
	f.Add(forge(`{"alg":"none"}`, `{}`, unsigned))
	f.Add(forge(`{"alg":"HS256","crit":[]}`, `null`, hs256(nil)))
	for _, token := range aboutSpelling(good) {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		err := auth.Parse(token)
		if err != nil && !errors.Is(err, auth.ErrInvalid) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if len(token) > 8<<10 || strings.Count(token, ".") != 2 {
			t.Errorf("%q is taken", token)
		}
		for part := range strings.SplitSeq(token, ".") {
			raw, err := b64.DecodeString(part)
			if err != nil || b64.EncodeToString(raw) != part {
				t.Errorf("%q has another spelling", part)
			}
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add(auth.SpellKey(auth.APIKind, make([]byte, 32)))
	f.Add(auth.SpellKey(auth.SiteKind, make([]byte, 32)))
	f.Add("lk_")
	f.Fuzz(func(t *testing.T, key string) {
		if auth.ReadKey(key) && len(key) != len("lk_")+48 && len(key) != len("lks_")+48 {
			t.Errorf("%q is taken", key)
		}
	})
}

// A token with a changed, missing or additional byte is refused.
func TestAlteredTokens(t *testing.T) {
	g := newGate(t)
	_, key := g.key(t, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"*"}})
	v, err := g.agents.Mint(t.Context(), g.Workspace, g.agent, 3)
	tokens := []string{g.sharedSecret().good, g.issuersRSA().good, reveal(t, v, err), key.Reveal(), adminToken}
	for _, token := range tokens {
		if _, err := g.a.Authenticate(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		token := rapid.SampledFrom(tokens).Draw(rt, "token")
		at := rapid.IntRange(0, len(token)-1).Draw(rt, "at")
		letter := string(rune(rapid.ByteRange(0, 127).Draw(rt, "letter")))
		altered := rapid.SampledFrom([]string{token[:at] + letter + token[at+1:], token[:at] + letter + token[at:], token[:at] + token[at+1:]}).Draw(rt, "altered")
		if altered == token {
			return
		}
		if p, err := g.a.Authenticate(t.Context(), altered); !errors.Is(err, auth.ErrInvalid) {
			rt.Errorf("%+v, %v", p, err)
		}
	})
}

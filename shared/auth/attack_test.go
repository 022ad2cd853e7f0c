package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/auth"
)

// assault holds a valid token, which is accepted, and attacks, which are not. Each attack differs
// from the token in one thing.
type assault struct {
	path, good string
	attacks    map[string]string // tokens by what is wrong with them
}

// TestTokenAttacks checks that every attack gets 401 or 403, and that its original token is
// accepted: the attack is all that was wrong.
func TestTokenAttacks(t *testing.T) {
	g := newGate(t)
	total := 0
	for name, as := range map[string]assault{
		"shared secret": g.sharedSecret(), "issuer's RSA key": g.issuersRSA(), "issuer's EC key": g.issuersEC(),
		"agent": g.agentTokens(t), "API key": g.apiKeys(t), "admin token": g.adminTokens(t),
	} {
		t.Run(name, func(t *testing.T) {
			if status, who := g.knock(bearer(as.path, as.good)); status != http.StatusOK {
				t.Fatalf("the good token: %d %s", status, who)
			}
			for what, token := range as.attacks {
				if token == as.good {
					t.Errorf("%s: is the good token", what)
				}
				if status, who := g.knock(bearer(as.path, token)); status != http.StatusUnauthorized && status != http.StatusForbidden {
					t.Errorf("%s: %d %s", what, status, who)
				}
			}
			if status, _ := g.knock(bearer(as.path, as.good)); status != http.StatusOK {
				t.Errorf("the good token after the attacks: %d", status)
			}
		})
		total += len(as.attacks)
	}
	t.Logf("%d attacks", total)
	if total < 100 {
		t.Error("these are few")
	}
}

// claims returns the valid claims of ada's token.
func (g *gate) claims() object {
	now := g.now().Unix()
	return object{
		"iss": iss, "aud": aud, "sub": "ada@issuer", "email": g.ada.Email, "email_verified": true,
		"iat": now, "nbf": now, "exp": now + 600, "custom": object{"deep": []int{1}},
	}
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// aboutClaims returns attacks on the claims of any signed token.
func aboutClaims(good object, now int64, make func(claims string) string) map[string]string {
	out := map[string]string{}
	change := func(name string, v any) {
		out[fmt.Sprintf("%s is %v", name, v)] = make(good.with(object{name: v}).text())
	}
	odd := []any{raw("null"), "", "x", raw("true"), raw("{}"), raw("[]"), []int{1}, fmt.Sprint(now + 600), raw("-1"), raw("1e400"), raw("1e10"),
		raw(fmt.Sprintf("%d.5e1", now+600)), raw(fmt.Sprint(uint64(math.MaxUint64))), raw("99999999999999999999999"), raw(fmt.Sprint(int64(math.MaxInt64)))}
	for _, v := range odd {
		change("exp", v)
		if _, there := good["nbf"]; there {
			change("nbf", v)
		}
		change("iat", v)
	}
	out["no exp"] = make(good.with(object{"exp": nil}).text())
	out["expired"] = make(good.with(object{"exp": now - 60}).text())
	out["expired long ago"] = make(good.with(object{"exp": 0}).text())
	out["not yet"] = make(good.with(object{"nbf": now + 61}).text())
	out["from the future"] = make(good.with(object{"iat": now + 61}).text())
	for _, v := range []any{nil, raw("null"), "", raw("1"), raw("{}"), []string{"x"}} {
		change("sub", v)
	}
	out["sub with a NUL"] = make(good.with(object{"sub": "a\x00"}).text())
	out["sub with a line break"] = make(good.with(object{"sub": "a\nb"}).text())
	out["sub too long"] = make(good.with(object{"sub": strings.Repeat("x", 256)}).text())
	for what, member := range map[string]string{
		"exp twice": `"exp":99999999999`, "sub twice": `"sub":"x"`, "sub twice, escaped": `"\u0073ub":"x"`, "Exp beside exp": `"Exp":1`, "EXP beside exp": `"EXP":99999999999`,
		"the long s": `"ſub":"x"`, "Sub": `"Sub":"x"`, "Ws": `"Ws":"x"`, "a claim of others twice": `"x":1,"x":1`, "a claim of others in two cases": `"xa":1,"Xa":1`,
		"twice within": `"y":{"a":1,"a":2}`, "twice within a list": `"y":[{"a":1},{"b":[{"a":1,"a":1}]}]`,
	} {
		out[what] = make(good.add(member))
	}
	for what, claims := range map[string]string{
		"claims are a list": "[" + good.text() + "]", "claims are null": "null", "claims are a text": `"x"`, "claims are empty": "{}",
		"claims are no JSON": "x", "claims are broken off": strings.TrimSuffix(good.text(), "}"), "two claims": good.text() + good.text(), "claims go on": good.text() + "x",
		"a mark before the claims": "\ufeff" + good.text(), "claims that are no UTF-8": good.add("\"x\":\"\xff\""), "deep claims": good.add(`"x":` + strings.Repeat("[", 2500) + strings.Repeat("]", 2500)),
		"a comment": good.text() + "//", "a comma at the end": strings.TrimSuffix(good.text(), "}") + ",}", "too many claims": good.add(`"x":"` + strings.Repeat("x", 8<<10) + `"`),
	} {
		out[what] = make(claims)
	}
	return out
}

// spelled returns a value for the name of an attack. nil means that the member is missing.
func spelled(v any) string {
	if v == nil {
		return "missing"
	}
	return object{"v": v}.text()
}

// aboutIssuers returns attacks on issuer and audience.
func aboutIssuers(good object, make func(claims string) string) map[string]string {
	out := map[string]string{}
	for name, values := range map[string][]any{
		"iss": {nil, raw("null"), "", "https://issuer.example/", "https://ISSUER.example", "https://evil.example", "https://issuer.example.evil.example", raw("1"), []string{iss}, raw("{}")},
		"aud": {nil, raw("null"), "", "Lanekeeper", "lanekeeper2", "other", raw("1"), raw("[]"), raw("[null]"), []string{"other"}, []string{"lanekeeper "}, []any{aud, 1}, object{aud: true}, [][]string{{aud}}},
	} {
		for _, v := range values {
			out[fmt.Sprintf("%s is %s", name, spelled(v))] = make(good.with(object{name: v}).text())
		}
	}
	out["aud twice"] = make(good.add(`"aud":"lanekeeper"`))
	out["a stranger"] = make(good.with(object{"sub": "stranger", "email": "stranger@example.com"}).text())
	out["an address nobody has verified"] = make(good.with(object{"sub": "other", "email_verified": false}).text())
	out["verified as a text"] = make(good.with(object{"sub": "other", "email_verified": "true"}).text())
	out["verified is missing"] = make(good.with(object{"sub": "other", "email_verified": nil}).text())
	out["an address that is a list"] = make(good.with(object{"sub": "other", "email": []string{"ada@example.com"}}).text())
	out["two addresses"] = make(good.with(object{"sub": "other", "email": "ada@example.com,eve@example.com"}).text())
	out["another letter that looks the same"] = make(good.with(object{"sub": "other", "email": "аda@example.com"}).text())
	return out
}

// aboutHeaders returns attacks on the header, with a signature that would be right.
func aboutHeaders(good object, claims string, sign signature) map[string]string {
	out := map[string]string{}
	alg := good["alg"].(string)
	for i := range 16 { // "none" in every combination of upper and lower case
		none := []byte("none")
		for bit := range none {
			if i>>bit&1 == 1 {
				none[bit] -= 'a' - 'A'
			}
		}
		header := good.with(object{"alg": string(none)}).text()
		out[fmt.Sprintf("%s, without a signature", none)] = forge(header, claims, unsigned)
		out[fmt.Sprintf("%s, with a signature", none)] = forge(header, claims, sign)
	}
	for _, v := range []any{nil, raw("null"), "", raw("1"), []string{alg}, strings.ToLower(alg), alg + " ", "HS384", "HS512", "RS384", "RS512", "PS256", "ES384", "ES512", "EdDSA", "dir", "RSA-OAEP", "A128KW"} {
		out[fmt.Sprintf("alg is %s", spelled(v))] = forge(good.with(object{"alg": v}).text(), claims, sign)
	}
	for what, member := range map[string]string{
		"alg twice": `"alg":"none"`, "alg twice, the same": `"alg":"` + alg + `"`, "Alg beside alg": `"Alg":"none"`, "ALG beside alg": `"ALG":"` + alg + `"`, "alg twice, escaped": `"\u0061lg":"none"`,
		"Crit": `"Crit":["x"]`, "Typ": `"Typ":"JWT"`, "kid twice": `"kid":"a","kid":"b"`, "Kid with the sign for Kelvin": `"Kid":"a"`,
		"crit that is unknown": `"crit":["x"],"x":1`, "crit that is known": `"crit":["exp"],"exp":1`, "crit that is empty": `"crit":[]`, "crit that is null": `"crit":null`, "crit that is a text": `"crit":"b64"`,
		"b64": `"b64":false`, "b64, critical": `"b64":false,"crit":["b64"]`, "b64 that is true": `"b64":true`, "zip": `"zip":"DEF"`, "enc": `"enc":"A128GCM"`,
		"jku": `"jku":"https://evil.example/keys"`, "x5u": `"x5u":"https://evil.example/cert"`, "x5c": `"x5c":["MIIB"]`, "jwk": `"jwk":{"kty":"oct","k":"AAAA"}`, "a token within": `"cty":"JWT"`,
	} {
		out[what] = forge(good.add(member), claims, sign)
	}
	for _, typ := range []any{"lk-session+jwt", "lk-link+jwt", "LK-Session+JWT", "lk-agent", "JWE", "dpop+jwt", "logout+jwt", "", raw("null"), raw("1"), []string{"JWT"}} {
		out[fmt.Sprintf("typ is %s", spelled(typ))] = forge(good.with(object{"typ": typ}).text(), claims, sign)
	}
	for what, header := range map[string]string{
		"a header that is a list": "[" + good.text() + "]", "a header that is null": "null", "a header that is empty": "{}", "a header that is no JSON": "x",
		"two headers": good.text() + "{}", "a mark before the header": "\ufeff" + good.text(), "a header that is no UTF-8": good.add("\"x\":\"\xff\""), "a header that goes on": good.text() + "\n}",
		"a long header": good.add(`"x":"` + strings.Repeat("x", 8<<10) + `"`),
	} {
		out[what] = forge(header, claims, sign)
	}
	return out
}

// aboutSpelling returns attacks on the text of a valid token.
func aboutSpelling(good string) map[string]string {
	parts := strings.Split(good, ".")
	header, claims, sig := parts[0], parts[1], parts[2]
	join := func(parts ...string) string { return strings.Join(parts, ".") }
	out := map[string]string{
		"no signature": join(header, claims), "an empty signature": join(header, claims, ""), "header alone": header, "signature alone": sig, "dots": "..", "": "",
		"four parts": join(header, claims, sig, sig), "five parts": join(header, "", claims, sig, sig), "five full parts": join(header, claims, sig, claims, sig),
		"no claims": join(header, "", sig), "no header": join("", claims, sig), "parts in another order": join(claims, header, sig), "a dot before": "." + good, "a dot behind": good + ".",
		"signature too short": join(header, claims, sig[:len(sig)-1]), "signature shorter by 3 bytes": join(header, claims, sig[:len(sig)-4]), "signature too long": good + "A", "signature longer by 3 bytes": good + "AAAA",
		"signature twice": good + sig, "padded": good + "=", "padded twice": good + "==", "header padded": join(header+"=", claims, sig),
		"the signature of another": join(header, claims, b64.EncodeToString(make([]byte, len(sig)*3/4))),
		"claims altered":           join(header, "e"+strings.ToUpper(claims[1:2])+claims[2:], sig), "header altered": join(header[:5]+"A"+header[6:], claims, sig),
		"a space before": "\u00a0" + good, "a space within": good[:10] + " " + good[10:], "a line break within": good[:10] + "\n" + good[10:], "a line break in the signature": good[:len(good)-5] + "\r\n" + good[len(good)-5:],
		"a line break at the end": good + "\r\n\t.", "a NUL at the end": good + "\x00", "a NUL within": good[:20] + "\x00" + good[20:], "percent": strings.Replace(good, ".", "%2E", 1), "quoted": `"` + good + `"`,
		"in JSON": fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, header, claims, sig), "twice": good + "," + good, "the scheme twice": "Bearer " + good,
		"in base64 with other letters": join(header, claims, base64.RawStdEncoding.EncodeToString([]byte{0xfb, 0xff, 0xfe})), "in small letters": strings.ToLower(good), "in capitals": strings.ToUpper(good),
		"too long": good + strings.Repeat("A", 8<<10),
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range sig { // one letter of the signature, and all letters at its end, where some bits are unused
		letters := alphabet[(strings.IndexByte(alphabet, sig[i])+17)%64:][:1]
		if i == len(sig)-1 {
			letters = alphabet
		}
		for _, letter := range letters {
			if sig[i] != byte(letter) {
				out[fmt.Sprintf("letter %d of the signature is %c", i, letter)] = join(header, claims, sig[:i]+string(letter)+sig[i+1:])
			}
		}
	}
	for i, part := range []string{header, claims} { // the same bytes in another spelling
		if n := len(part) % 4; n != 0 {
			last := strings.IndexByte(alphabet, part[len(part)-1])
			other := []string{header, claims, sig}
			other[i] = part[:len(part)-1] + string(alphabet[last^1])
			out[fmt.Sprintf("bits left over in part %d", i)] = join(other...)
		}
	}
	return out
}

func all(sets ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, set := range sets {
		for what, token := range set {
			if _, taken := out[what]; taken {
				what += " (another)"
			}
			out[what] = token
		}
	}
	return out
}

func (g *gate) sharedSecret() assault {
	header, sign := object{"alg": "HS256", "typ": "JWT"}, hs256([]byte(hsSecret))
	make := func(claims string) string { return forge(header.text(), claims, sign) }
	good := make(g.claims().text())
	others := map[string]string{
		"another's secret":     forge(header.text(), g.claims().text(), hs256([]byte("another secret that is long enough for it"))),
		"no secret":            forge(header.text(), g.claims().text(), hs256(nil)),
		"HS384":                forge(header.with(object{"alg": "HS384"}).text(), g.claims().text(), hs384([]byte(hsSecret))),
		"HS384 as HS256":       forge(header.text(), g.claims().text(), hs384([]byte(hsSecret))),
		"an agent's type":      forge(header.with(object{"typ": "lk-agent+jwt"}).text(), g.claims().text(), sign),
		"ada's id in braces":   make(g.claims().with(object{"sub": "{" + g.ada.ID + "}", "email_verified": false}).text()),
		"ada's id as a URN":    make(g.claims().with(object{"sub": "urn:uuid:" + g.ada.ID, "email_verified": false}).text()),
		"ada's id in capitals": make(g.claims().with(object{"sub": strings.ToUpper(g.ada.ID), "email_verified": false}).text()),
		"good until 9999":      make(g.claims().with(object{"exp": 253402300799}).text()),
		"good for 31 days":     make(g.claims().with(object{"exp": g.now().Unix() + 31*24*3600}).text()),
		"of nobody's id":       make(g.claims().with(object{"sub": uuid.NewString(), "email_verified": false}).text()),
	}
	return assault{"/", good, all(aboutClaims(g.claims(), g.now().Unix(), make), aboutIssuers(g.claims(), make), aboutHeaders(header, g.claims().text(), sign), aboutSpelling(good), others)}
}

func (g *gate) issuersRSA() assault {
	key, ec := keyPairs()
	header, sign := object{"alg": "RS256", "typ": "at+jwt", "kid": "rsa"}, rs256(key)
	claims := g.claims().with(object{"sub": "ada|rsa"})
	make := func(claims string) string { return forge(header.text(), claims, sign) }
	good := make(claims.text())
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	jwk, err := publicRSA("rsa").MarshalJSON()
	if err != nil {
		panic(err)
	}
	evil := publicRSA("rsa")
	evil.Key = stranger.Public()
	evilJWK, err := evil.MarshalJSON()
	if err != nil {
		panic(err)
	}
	others := map[string]string{
		"another's key":              forge(header.text(), claims.text(), rs256(stranger)),
		"a key of the token's own":   forge(header.add(`"jwk":`+string(evilJWK)), claims.text(), rs256(stranger)),
		"PSS":                        forge(header.with(object{"alg": "PS256"}).text(), claims.text(), ps256(key)),
		"PSS as PKCS 1":              forge(header.text(), claims.text(), ps256(key)),
		"the EC key under RSA's":     forge(header.with(object{"alg": "ES256"}).text(), claims.text(), es256(ec)),
		"RS256 under the EC key's":   forge(header.with(object{"kid": "ec"}).text(), claims.text(), sign),
		"no key named, of two":       forge(header.with(object{"kid": nil}).text(), claims.text(), sign),
		"another subject's address":  forge(header.text(), claims.with(object{"sub": "eve|rsa"}).text(), sign),
		"a subject of another's":     forge(header.text(), claims.with(object{"sub": "ADA|RSA"}).text(), sign),
		"with the secret of HS256":   forge(header.text(), claims.text(), hs256([]byte(hsSecret))),
		"a subject that is our id":   forge(header.text(), claims.with(object{"sub": g.ada.ID, "email_verified": false}).text(), sign),
		"an agent's type, RSA's key": forge(header.with(object{"typ": "lk-agent+jwt"}).text(), claims.text(), sign),
	}
	for what, public := range map[string][]byte{ // public data is not a secret
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "modulus": key.N.Bytes(), "JWK": jwk,
	} {
		hs := header.with(object{"alg": "HS256"})
		others["confusion with "+what] = forge(hs.text(), claims.text(), hs256(public))
		others["confusion with "+what+", no key named"] = forge(hs.with(object{"kid": nil}).text(), claims.text(), hs256(public))
	}
	for _, kid := range []any{"RSA", "rsa ", "rsa\x00", "../../../../dev/null", "' OR 1=1 --", "https://evil.example/k", "*", "", "0", strings.Repeat("k", 4000), raw("null"), raw("0"), []string{"rsa"}, object{"rsa": 1}} {
		others[fmt.Sprintf("kid is %.40s", object{"v": kid}.text())] = forge(header.with(object{"kid": kid}).text(), claims.text(), sign)
	}
	return assault{"/", good, all(aboutClaims(claims, g.now().Unix(), make), aboutIssuers(claims, make), aboutHeaders(header, claims.text(), sign), aboutSpelling(good), others)}
}

func (g *gate) issuersEC() assault {
	_, key := keyPairs()
	header, sign := object{"alg": "ES256", "kid": "ec"}, es256(key)
	claims := g.claims().with(object{"sub": "ada|rsa"}) // bound by the first of ada's tokens
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	good := forge(header.text(), claims.text(), sign)
	others := map[string]string{
		"another's key":           forge(header.text(), claims.text(), es256(stranger)),
		"a signature of zeroes":   forge(header.text(), claims.text(), func([]byte) []byte { return make([]byte, 64) }),
		"a signature in DER":      forge(header.text(), claims.text(), func(text []byte) []byte { return []byte{0x30, 6, 2, 1, 1, 2, 1, 1} }),
		"half of a signature":     forge(header.text(), claims.text(), func(text []byte) []byte { return sign(text)[:32] }),
		"a longer signature":      forge(header.text(), claims.text(), func(text []byte) []byte { return append(sign(text), 0) }),
		"under RSA's name":        forge(header.with(object{"kid": "rsa"}).text(), claims.text(), sign),
		"ES256 said to be RS256":  forge(header.with(object{"alg": "RS256"}).text(), claims.text(), sign),
		"ES256K":                  forge(header.with(object{"alg": "ES256K"}).text(), claims.text(), sign),
		"another subject, no new": forge(header.text(), claims.with(object{"sub": "ada|ec"}).text(), sign),
	}
	return assault{"/", good, all(aboutHeaders(header, claims.text(), sign), aboutSpelling(good), others)}
}

func (g *gate) agentTokens(t *testing.T) assault {
	t.Helper()
	v, err := g.agents.Mint(t.Context(), g.Workspace, g.agent, 3)
	good := reveal(t, v, err)
	now := g.now().Unix()
	header, sign := object{"alg": "HS256", "typ": "lk-agent+jwt"}, hs256(g.agentKeys[g.Workspace])
	claims := object{"sub": g.agent, "ws": g.Workspace, "gen": 3, "iat": now, "exp": now + 600}
	make := func(claims string) string { return forge(header.text(), claims, sign) }
	if status, who := g.knock(bearer("/beat", make(claims.text()))); status != http.StatusOK {
		t.Fatalf("a forged token with the right key: %d %s", status, who)
	}
	v, err = g.agents.Mint(t.Context(), g.Workspace, g.agent, 2)
	others := map[string]string{
		"of the generation before":  reveal(t, v, err),
		"another workspace":         make(claims.with(object{"ws": g.theirs}).text()),
		"the other's key":           forge(header.text(), claims.text(), hs256(g.agentKeys[g.theirs])),
		"another workspace, by its": forge(header.text(), claims.with(object{"ws": g.theirs}).text(), hs256(g.agentKeys[g.theirs])), // the agent does not exist there
		"no workspace":              make(claims.with(object{"ws": nil}).text()),
		"a workspace that isn't":    make(claims.with(object{"ws": uuid.NewString()}).text()),
		"a workspace by its slug":   make(claims.with(object{"ws": "default"}).text()),
		"the workspace in capitals": make(claims.with(object{"ws": strings.ToUpper(string(g.Workspace))}).text()),
		"a list of workspaces":      make(claims.with(object{"ws": []any{g.Workspace}}).text()),
		"another agent":             make(claims.with(object{"sub": ids()}).text()),
		"a person":                  make(claims.with(object{"sub": g.ada.ID}).text()),
		"with the secret of HS256":  forge(header.text(), claims.text(), hs256([]byte(hsSecret))),
		"as a person's":             forge(header.with(object{"typ": "JWT"}).text(), claims.text(), sign),
		"without a type":            forge(header.with(object{"typ": nil}).text(), claims.text(), sign),
	}
	for _, gen := range []any{nil, raw("null"), "3", raw("3.0"), raw("3e0"), raw("-3"), raw("2"), raw("4"), raw("true"), []int{3}, raw("03")} {
		others[fmt.Sprintf("gen is %v", gen)] = make(strings.Replace(claims.with(object{"gen": nil}).text(), "{", fmt.Sprintf(`{"gen":%s,`, rawOf(gen)), 1))
	}
	headers := aboutHeaders(header, claims.text(), sign)
	return assault{"/beat", good, all(aboutClaims(claims, now, make), headers, aboutSpelling(good), others)}
}

func rawOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return string(v.(json.RawMessage)) // not JSON, on purpose
	}
	return string(text)
}

func (g *gate) apiKeys(t *testing.T) assault {
	t.Helper()
	everything := auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"*"}}
	_, clear := g.key(t, everything)
	good := clear.Reveal()
	_, site := g.key(t, auth.APIKey{Name: "s", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}})
	narrow := everything
	narrow.Scopes = []auth.Scope{"skills:write"}
	_, other := g.key(t, narrow)

	random, err := b64.DecodeString(strings.TrimPrefix(good, "lk_"))
	if err != nil {
		t.Fatal(err)
	}
	siteRandom, err := b64.DecodeString(strings.TrimPrefix(site.Reveal(), "lks_"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{
		"a site key":                     site.Reveal(),
		"a site key said to be an API's": auth.SpellKey(auth.APIKind, siteRandom[:32]),
		"an API key said to be a site's": auth.SpellKey(auth.SiteKind, random[:32]),
		"one nobody has":                 auth.SpellKey(auth.APIKind, make([]byte, 32)),
		"of another scope":               other.Reveal(),
		"its prefix only":                "lk_", "without its prefix": strings.TrimPrefix(good, "lk_"), "with two prefixes": "lk_" + good, "another prefix": "lks_" + strings.TrimPrefix(good, "lk_"),
		"a prefix in capitals": "LK_" + strings.TrimPrefix(good, "lk_"), "padded": good + "=", "in capitals": strings.ToUpper(good), "in small letters": strings.ToLower(good),
		"a NUL at the end": good + "\x00", "a line break within": good[:20] + "\n" + good[20:], "a space within": good[:20] + " " + good[20:], "twice": good + good,
		"without its checksum": "lk_" + b64.EncodeToString(random[:32]), "with another checksum": "lk_" + b64.EncodeToString(append(random[:32:32], 0, 0, 0, 0)),
		"its hash": "lk_" + b64.EncodeToString(random[4:]),
	}
	for n := range len(good) {
		out[fmt.Sprintf("cut off at %d", n)] = good[:n]
		letter := byte('A')
		if good[n] == letter {
			letter = 'B'
		}
		out[fmt.Sprintf("letter %d altered", n)] = good[:n] + string(letter) + good[n+1:]
	}
	return assault{"/", good, out}
}

func (g *gate) adminTokens(*testing.T) assault {
	out := map[string]string{"its start": adminToken[:10], "more than it": adminToken + "x", "in capitals": strings.ToUpper(adminToken), "reversed": reversed(adminToken)}
	return assault{"/admin", adminToken, out}
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// No kind of token is accepted as another, and none gives access to anything it is not for.
func TestTokensDoNotPassForOthers(t *testing.T) {
	g := newGate(t)
	user := g.sharedSecret().good
	agent := g.agentTokens(t).good
	_, api := g.key(t, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"tasks:read"}})
	_, site := g.key(t, auth.APIKey{Name: "s", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}})
	v, err := g.sessions.MintLink(t.Context(), g.ada.Email)
	link := reveal(t, v, err)
	cookie, err := g.sessions.Start(t.Context(), auth.Principal{Kind: auth.User, ID: g.ada.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token string
		opens       []string
	}{
		{"user", user, []string{"/", "/admin", "/chat"}},
		{"agent", agent, []string{"/beat"}},
		{"API key", api.Reveal(), []string{"/"}},
		{"site key", site.Reveal(), []string{"/chat"}},
		{"admin token", adminToken, []string{"/", "/admin", "/chat"}},
		{"link", link, nil},
		{"session", cookie.Value, nil},
	} {
		for path := range maps.Keys(routes) {
			r := bearer(path, c.token)
			r.Header.Set("Origin", "https://shop.example")
			status, who := g.knock(r)
			if open := slices.Contains(c.opens, path); open != (status == http.StatusOK) || !open && status != 401 && status != 403 {
				t.Errorf("%s at %s: %d %s", c.name, path, status, who)
			}
		}
		if _, err := g.sessions.RedeemLink(t.Context(), c.token); (err == nil) != (c.name == "link") {
			t.Errorf("%s as a link: %v", c.name, err)
		}
		r := bearer("/", "")
		r.Header.Del("Authorization")
		r.AddCookie(&http.Cookie{Name: g.sessions.Name(), Value: c.token})
		if status, who := g.knock(r); (status == http.StatusOK) != (c.name == "session") {
			t.Errorf("%s as a cookie: %d %s", c.name, status, who)
		}
	}
}

package inbox_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// signed is a request that its source accepts.
type signed struct {
	name   string
	source inbox.Source
	secret string
	at     int64 // the request's timestamp; 0: it has none
	header map[string]string
	body   string
}

const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
	"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands" +
	"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

// vectors returns one request of each kind. Those of GitHub, Slack and Standard Webhooks are
// published by them; the others follow the documentation.
func vectors() []signed {
	return []signed{
		{"github", inbox.Source{Kind: inbox.GitHub}, "It's a Secret to Everybody", 0, map[string]string{
			"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		}, "Hello, World!"},
		{"slack", inbox.Source{Kind: inbox.Slack}, "8f742231b10e8888abcd99yyyzzz85a5", 1531420618, map[string]string{
			"X-Slack-Request-Timestamp": "1531420618",
			"X-Slack-Signature":         "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
		}, slackBody},
		{"standard", inbox.Source{Kind: inbox.Standard}, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1614265330, map[string]string{
			"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330",
			"Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		}, `{"test": 2432232314}`},
		{"standard, as Supabase writes the secret of its hooks", inbox.Source{Kind: inbox.Standard}, "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1614265330,
			map[string]string{
				"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330",
				"Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
			}, `{"test": 2432232314}`},
		{"standard, as Svix sends it for Clerk and Resend", inbox.Source{Kind: inbox.Standard}, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1614265330,
			map[string]string{
				"Svix-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Svix-Timestamp": "1614265330",
				"Svix-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
			}, `{"test": 2432232314}`},
		{"stripe", inbox.Source{Kind: inbox.Stripe}, "whsec_test_secret_of_an_endpoint", 1492774577, map[string]string{
			"Stripe-Signature": "t=1492774577,v1=" + stripeSum + ",v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39",
		}, `{"id":"evt_1","object":"event","type":"invoice.paid"}`},
		{"hmac", inbox.Source{Kind: inbox.HMAC, Header: "X-Signature", Encoding: inbox.Hex}, "a secret of the sender", 0, map[string]string{
			"X-Signature": hex.EncodeToString(sum("a secret of the sender", "body")),
		}, "body"},
		{"hmac in base64 with a prefix", inbox.Source{Kind: inbox.HMAC, Header: "X-Shopify-Hmac", Encoding: inbox.Base64, Prefix: "v1 "}, "a secret of the sender", 0, map[string]string{
			"X-Shopify-Hmac": "v1 " + base64.StdEncoding.EncodeToString(sum("a secret of the sender", "body")),
		}, "body"},
		{"token", inbox.Source{Kind: inbox.Token, Header: "Authorization", Prefix: "Bearer "}, "a token of the sender", 0, map[string]string{
			"Authorization": "Bearer a token of the sender",
		}, "body"},
	}
}

// stripeSum was computed by other code.
const stripeSum = "9338b54f32b4a722bb2e60e6de9363037dd8d30424c48f03af14ff9aa2ab641a"

func sum(key, text string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (v signed) request() inbox.Request {
	h := http.Header{}
	for name, value := range v.header {
		h.Set(name, value)
	}
	return inbox.Request{Header: h, Body: []byte(v.body)}
}

func (v signed) now() time.Time {
	if v.at == 0 {
		return time.Unix(1_800_000_000, 0)
	}
	return time.Unix(v.at, 0)
}

func values(texts ...string) (out []secret.Value) {
	for _, text := range texts {
		out = append(out, secret.NewValue(text))
	}
	return out
}

// TestSignedRequestsAreAccepted: this holds for either of two secrets, and at both ends of the
// window.
func TestSignedRequestsAreAccepted(t *testing.T) {
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			if err := inbox.CheckSecret(v.source.Kind, secret.NewValue(v.secret)); err != nil {
				t.Error(err)
			}
			for _, secrets := range [][]secret.Value{values(v.secret), values("another secret of it", v.secret), values(v.secret, "another secret of it")} {
				if err := v.source.Verify(v.request(), secrets, v.now()); err != nil {
					t.Error(err)
				}
			}
			for _, off := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
				if err := v.source.Verify(v.request(), values(v.secret), v.now().Add(off)); err != nil {
					t.Errorf("%s off: %v", off, err)
				}
			}
		})
	}
}

// TestSpoiledRequestsAreRejected changes each request in more than a hundred ways.
func TestSpoiledRequestsAreRejected(t *testing.T) {
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			n := 0
			refuse := func(what string, r inbox.Request, secrets []secret.Value, now time.Time) {
				t.Helper()
				n++
				err := v.source.Verify(r, secrets, now)
				if _, is := errors.AsType[*inbox.RejectedError](err); !is {
					t.Errorf("%s: %v", what, err)
				}
			}
			good := values(v.secret)
			for _, other := range []string{"", " ", v.secret + " ", " " + v.secret, strings.ToUpper(v.secret) + "x", v.secret[1:], "whsec_", "0"} {
				refuse("the secret "+other, v.request(), values(other), v.now())
			}
			refuse("no secret", v.request(), nil, v.now())
			refuse("no header", inbox.Request{Header: http.Header{}, Body: []byte(v.body)}, good, v.now())
			if v.source.Kind != inbox.Token {
				for i := range 8 * min(len(v.body), 20) {
					r := v.request()
					r.Body[i/8] ^= 1 << (i % 8)
					refuse(fmt.Sprintf("bit %d of the body", i), r, good, v.now())
				}
				for _, body := range []string{"", v.body + " ", v.body + "\n", " " + v.body, v.body[1:]} {
					refuse("another body", inbox.Request{Header: v.request().Header, Body: []byte(body)}, good, v.now())
				}
			}
			for name, value := range v.header {
				change := func(what, to string) {
					t.Helper()
					r := v.request()
					r.Header.Set(name, to)
					refuse(name+" "+what, r, good, v.now())
				}
				end := len(value)
				if i := strings.Index(value, ",v0="); i > 0 { // this signature does not count
					end = i
				}
				for i := range end {
					changed := []byte(value)
					changed[i] ^= 1
					change(fmt.Sprintf("bit of byte %d", i), string(changed))
				}
				for i := 0; i < end; i += 3 {
					change(fmt.Sprintf("cut at %d", i), value[:i])
				}
				change("with a NUL", value[:end]+"\x00"+value[end:])
				if v.source.Kind != inbox.Stripe && v.source.Kind != inbox.Standard { // these have lists
					change("doubled", value+value)
					change("with a space", " "+value)
				}
				r := v.request()
				r.Header.Add(name, value)
				refuse(name+" twice", r, good, v.now())
				r = v.request()
				r.Header.Del(name)
				refuse(name+" missing", r, good, v.now())
			}
			if v.at != 0 {
				for _, off := range []time.Duration{-301 * time.Second, 301 * time.Second, -time.Hour, 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
					refuse(off.String()+" off", v.request(), good, v.now().Add(off))
				}
			}
			if n < 100 && v.source.Kind != inbox.Token {
				t.Errorf("only %d ways", n)
			}
		})
	}
}

// TestWrongTimestamps: a timestamp that is not a plain number of seconds is refused, even if it is
// signed.
func TestWrongTimestamps(t *testing.T) {
	for _, at := range []string{"", "0", "-1531420618", "+1531420618", "01531420618", "1531420618.0", "1e9", "0x5b47a34a", " 1531420618", "99999999999999999999", "9223372036854775807", "-9223372036854775808", "NaN"} {
		mac := hex.EncodeToString(sum("8f742231b10e8888abcd99yyyzzz85a5", "v0:"+at+":body"))
		r := inbox.Request{Header: http.Header{"X-Slack-Request-Timestamp": {at}, "X-Slack-Signature": {"v0=" + mac}}, Body: []byte("body")}
		err := inbox.Source{Kind: inbox.Slack}.Verify(r, values("8f742231b10e8888abcd99yyyzzz85a5"), time.Unix(1531420618, 0))
		if err == nil {
			t.Errorf("%q is accepted", at)
		}
	}
}

// TestEmptySecretsNeverMatch: a signature with the empty key is refused.
func TestEmptySecretsNeverMatch(t *testing.T) {
	for _, c := range []struct {
		source inbox.Source
		header http.Header
	}{
		{inbox.Source{Kind: inbox.GitHub}, http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sum("", "body"))}}},
		{inbox.Source{Kind: inbox.HMAC, Header: "X-Signature", Encoding: inbox.Hex}, http.Header{"X-Signature": {hex.EncodeToString(sum("", "body"))}}},
		{inbox.Source{Kind: inbox.Token, Header: "Authorization", Prefix: "Bearer "}, http.Header{"Authorization": {"Bearer "}}},
		{inbox.Source{Kind: inbox.Stripe}, http.Header{"Stripe-Signature": {"t=5,v1=" + hex.EncodeToString(sum("", "5.body"))}}},
		{inbox.Source{Kind: inbox.Slack}, http.Header{"X-Slack-Request-Timestamp": {"5"}, "X-Slack-Signature": {"v0=" + hex.EncodeToString(sum("", "v0:5:body"))}}},
		{inbox.Source{Kind: inbox.Standard}, http.Header{"Webhook-Id": {"a"}, "Webhook-Timestamp": {"5"},
			"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(sum("", "a.5.body"))}}},
	} {
		for _, secrets := range [][]secret.Value{values(""), {secret.Value{}}, values("whsec_")} {
			if c.source.Kind != inbox.Standard && secrets[0].Reveal() != "" {
				continue
			}
			if err := c.source.Verify(inbox.Request{Header: c.header, Body: []byte("body")}, secrets, time.Unix(5, 0)); err == nil {
				t.Errorf("%s: an empty secret is accepted", c.source.Kind)
			}
		}
		for _, empty := range []string{"", " ", "\t\n"} {
			if err := inbox.CheckSecret(c.source.Kind, secret.NewValue(empty)); err == nil {
				t.Errorf("%s: the secret %q may be stored", c.source.Kind, empty)
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	for _, v := range vectors() {
		for name, value := range v.header {
			f.Add(string(v.source.Kind), name, value, []byte(v.body))
		}
	}
	f.Fuzz(func(t *testing.T, kind, name, value string, body []byte) {
		s := inbox.Source{Kind: inbox.Kind(kind), Header: "X-Signature", Encoding: inbox.Base64}
		h := http.Header{"X-Slack-Request-Timestamp": {"5"}, "Webhook-Id": {"a"}, "Webhook-Timestamp": {"5"}}
		h.Set(name, value)
		if s.Verify(inbox.Request{Header: h, Body: body}, values("nobody signs with this one"), time.Unix(5, 0)) == nil {
			t.Error("accepted")
		}
	})
}

package inbox_test

import (
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/inbox"
)

// stripeVectors are requests that Stripe's own package has signed: it publishes none. The script beside
// them makes them.
//
//go:embed testdata/stripe/vectors.json
var stripeVectors []byte

// TestRequestsThatStripesPackageHasSigned are accepted, and no longer once a byte is another.
func TestRequestsThatStripesPackageHasSigned(t *testing.T) {
	var all []struct {
		Secret, Body, Header string
		Timestamp            int64
	}
	if err := json.Unmarshal(stripeVectors, &all); err != nil || len(all) < 4 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	source := inbox.Source{Kind: inbox.Stripe}
	for _, v := range all {
		verify := func(header, body, secret string, now int64) error {
			r := inbox.Request{Header: http.Header{"Stripe-Signature": {header}}, Body: []byte(body)}
			return source.Verify(r, values(secret), time.Unix(now, 0))
		}
		if err := verify(v.Header, v.Body, v.Secret, v.Timestamp); err != nil {
			t.Errorf("%q: %v", v.Body, err)
		}
		for _, off := range []int64{-301, 301} {
			if verify(v.Header, v.Body, v.Secret, v.Timestamp+off) == nil {
				t.Errorf("%q is accepted %d seconds off", v.Body, off)
			}
		}
		spoiled := 0
		for i := range len(v.Header) {
			changed := []byte(v.Header)
			changed[i] ^= 1
			spoiled++
			if verify(string(changed), v.Body, v.Secret, v.Timestamp) == nil {
				t.Errorf("%q is accepted with byte %d of its header changed", v.Body, i)
			}
		}
		for i := range len(v.Body) {
			changed := []byte(v.Body)
			changed[i] ^= 1
			spoiled++
			if verify(v.Header, string(changed), v.Secret, v.Timestamp) == nil {
				t.Errorf("%q is accepted with its byte %d changed", v.Body, i)
			}
		}
		if verify(v.Header, v.Body+" ", v.Secret, v.Timestamp) == nil || verify(v.Header, v.Body, v.Secret[1:], v.Timestamp) == nil || spoiled < 80 {
			t.Errorf("%q, spoiled, is accepted", v.Body)
		}
	}
}

// TestSeveralSignatures: one that is right suffices among those of a header that is a list, wherever it
// stands, as senders do who rotate their secret; many wrong ones do not, and not all of very many are
// looked at.
func TestSeveralSignatures(t *testing.T) {
	const secret, at = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "1614265330"
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	good := "v1," + base64.StdEncoding.EncodeToString(sum(string(key), "msg_1."+at+".body"))
	wrong := "v1," + base64.StdEncoding.EncodeToString(sum("another key", "msg_1."+at+".body"))
	stripeGood := "v1=" + hex.EncodeToString(sum(secret, at+".body"))
	stripeWrong := "v1=" + hex.EncodeToString(sum("another key", at+".body"))
	many := func(s, by string, n int) (out string) {
		for range n {
			out += s + by
		}
		return out
	}
	for name, c := range map[string]struct {
		standard, stripe string
		accepted         bool
	}{
		"first":          {good + " " + wrong, "t=" + at + "," + stripeGood + "," + stripeWrong, true},
		"last":           {wrong + " " + good, "t=" + at + "," + stripeWrong + "," + stripeGood, true},
		"other versions": {"v1a,xyz " + good + " v2,abc", "v0=abc,t=" + at + "," + stripeGood, true},
		"none right":     {wrong + " " + wrong, "t=" + at + "," + stripeWrong, false},
		"another scheme": {"v2," + good[3:], "t=" + at + ",v0=" + stripeGood[3:], false},
		"very many":      {many(wrong, " ", 5000) + good, "t=" + at + "," + many(stripeWrong, ",", 5000) + stripeGood, false},
	} {
		now := time.Unix(1614265330, 0)
		h := http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {at}, "Webhook-Signature": {c.standard}}
		if err := (inbox.Source{Kind: inbox.Standard}).Verify(inbox.Request{Header: h, Body: []byte("body")}, values(secret), now); (err == nil) != c.accepted {
			t.Errorf("standard, %s: %v", name, err)
		}
		h = http.Header{"Stripe-Signature": {c.stripe}}
		if err := (inbox.Source{Kind: inbox.Stripe}).Verify(inbox.Request{Header: h, Body: []byte("body")}, values(secret), now); (err == nil) != c.accepted {
			t.Errorf("stripe, %s: %v", name, err)
		}
	}
}

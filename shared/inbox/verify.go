package inbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Request is a delivery as it arrived. Nothing in it is trusted before [Source.Verify].
type Request struct {
	Header http.Header
	Body   []byte // the raw bytes
}

// Window is the largest difference between a request's timestamp and the current time.
const Window = 5 * time.Minute

// maxSignatures is the largest number of signatures that are checked in one request.
const maxSignatures = 16

// RejectedError says why the signature of a request is invalid. Its text repeats nothing of the
// request.
type RejectedError struct{ Why string }

func (e *RejectedError) Error() string { return "the request is not accepted: " + e.Why }

func rejected(why string) error { return &RejectedError{why} }

// Verify checks the signature of a request over the raw bytes of its body, with each of the secrets
// in constant time. The request is accepted if one of the secrets matches. Empty secrets never
// match. The error is a [RejectedError].
func (s Source) Verify(r Request, secrets []secret.Value, now time.Time) error {
	switch s.Kind {
	case GitHub:
		return verifyHMAC(r, secrets, "X-Hub-Signature-256", "sha256=", Hex)
	case HMAC:
		return verifyHMAC(r, secrets, s.Header, s.Prefix, s.Encoding)
	case Token:
		return s.verifyToken(r, secrets)
	case Stripe:
		return verifyStripe(r, secrets, now)
	case Slack:
		return verifySlack(r, secrets, now)
	case Standard:
		return verifyStandard(r, secrets, now)
	}
	return rejected("its source has no known kind")
}

// header returns the value of a header that must occur exactly once.
func (r Request) header(name string) (string, error) {
	values := r.Header.Values(name)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", rejected("header " + name + " is missing")
	case len(values) > 1:
		return "", rejected("header " + name + " comes more than once")
	}
	return values[0], nil
}

// verifyHMAC checks a header with the HMAC-SHA256 of the body.
func verifyHMAC(r Request, secrets []secret.Value, name, prefix string, e Encoding) error {
	value, err := r.header(name)
	if err != nil {
		return err
	}
	written, ok := strings.CutPrefix(value, prefix)
	if !ok {
		return rejected("header " + name + " lacks its prefix")
	}
	signature, ok := decoded(written, e)
	if !ok {
		return rejected("header " + name + " is no signature")
	}
	return matches(secrets, raw, [][]byte{signature}, r.Body)
}

func decoded(s string, e Encoding) ([]byte, bool) {
	var sum []byte
	var err error
	if e == Base64 {
		sum, err = base64.StdEncoding.Strict().DecodeString(s)
	} else {
		sum, err = hex.DecodeString(s)
	}
	return sum, err == nil && len(sum) == sha256.Size
}

// verifyToken checks that a header holds the secret itself.
func (s Source) verifyToken(r Request, secrets []secret.Value) error {
	value, err := r.header(s.Header)
	if err != nil {
		return err
	}
	given, ok := strings.CutPrefix(value, s.Prefix)
	if !ok {
		return rejected("header " + s.Header + " lacks its prefix")
	}
	sum := sha256.Sum256([]byte(given))
	found := false
	for _, v := range secrets {
		want := sha256.Sum256([]byte(v.Reveal()))
		found = hmac.Equal(sum[:], want[:]) && v.Reveal() != "" || found
	}
	if !found {
		return rejected("the token is wrong")
	}
	return nil
}

// verifyStripe checks Stripe-Signature: t=1492774577,v1=5257a8…, of "{t}.{body}".
func verifyStripe(r Request, secrets []secret.Value, now time.Time) error {
	const name = "Stripe-Signature"
	value, err := r.header(name)
	if err != nil {
		return err
	}
	var at string
	var signatures [][]byte
	for part := range strings.SplitSeq(value, ",") {
		key, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch sum, ok := decoded(v, Hex); {
		case key == "t" && at != "":
			return rejected("header " + name + " has two timestamps")
		case key == "t":
			at = v
		case key == "v1" && ok && len(signatures) < maxSignatures:
			signatures = append(signatures, sum)
		}
	}
	if err := fresh(at, now); err != nil {
		return err
	}
	return matches(secrets, raw, signatures, []byte(at), dot, r.Body)
}

// verifySlack checks X-Slack-Signature: v0=…, of "v0:{timestamp}:{body}".
func verifySlack(r Request, secrets []secret.Value, now time.Time) error {
	const name = "X-Slack-Signature"
	value, err := r.header(name)
	if err != nil {
		return err
	}
	at, err := r.header("X-Slack-Request-Timestamp")
	if err != nil {
		return err
	}
	if err := fresh(at, now); err != nil {
		return err
	}
	written, versioned := strings.CutPrefix(value, "v0=")
	signature, ok := decoded(written, Hex)
	if !versioned || !ok {
		return rejected("header " + name + " is no signature")
	}
	return matches(secrets, raw, [][]byte{signature}, []byte("v0:"), []byte(at), []byte(":"), r.Body)
}

// verifyStandard checks webhook-signature: v1,K5oZfzN9… v1,…, of "{id}.{timestamp}.{body}".
func verifyStandard(r Request, secrets []secret.Value, now time.Time) error {
	family := standardFamily(r.Header)
	value, err := r.header(family + "Signature")
	if err != nil {
		return err
	}
	id, err := r.header(family + "Id")
	if err != nil {
		return err
	}
	at, err := r.header(family + "Timestamp")
	if err != nil {
		return err
	}
	if err := fresh(at, now); err != nil {
		return err
	}
	var signatures [][]byte
	for part := range strings.SplitSeq(value, " ") {
		written, ok := strings.CutPrefix(part, "v1,")
		if sum, good := decoded(written, Base64); ok && good && len(signatures) < maxSignatures {
			signatures = append(signatures, sum)
		}
	}
	return matches(secrets, standardBytes, signatures, []byte(id), dot, []byte(at), dot, r.Body)
}

// standardFamily returns how the names of the headers of Standard Webhooks begin. Svix, which sends for Clerk, Resend
// and others, has names of its own.
func standardFamily(h http.Header) string {
	if h.Get("Webhook-Signature") == "" && h.Get("Svix-Signature") != "" {
		return "Svix-"
	}
	return "Webhook-"
}

var dot = []byte(".")

// fresh checks that a Unix time in seconds is within [Window] of now.
func fresh(at string, now time.Time) error {
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != at {
		return rejected("its timestamp is missing, or no number of seconds")
	}
	if seconds < 0 || seconds > 1<<40 || now.Sub(time.Unix(seconds, 0)).Abs() > Window {
		return rejected("its timestamp is more than 5 minutes from now")
	}
	return nil
}

func raw(v secret.Value) []byte { return []byte(v.Reveal()) }

func standardBytes(v secret.Value) []byte {
	key, ok := standardKey(v.Reveal())
	if !ok {
		return nil // never matches
	}
	return key
}

// matches checks that one of the signatures is the HMAC-SHA256 of the parts with one of the keys.
func matches(secrets []secret.Value, key func(secret.Value) []byte, signatures [][]byte, parts ...[]byte) error {
	found := false
	for _, v := range secrets {
		k := key(v)
		if len(k) == 0 {
			continue
		}
		mac := hmac.New(sha256.New, k)
		for _, p := range parts {
			mac.Write(p)
		}
		sum := mac.Sum(nil)
		for _, s := range signatures {
			found = hmac.Equal(sum, s) || found
		}
	}
	if !found {
		return rejected("the signature is wrong")
	}
	return nil
}

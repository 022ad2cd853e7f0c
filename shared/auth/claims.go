package auth

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// registered lists the claims that this package reads.
var registered = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "email", "email_verified", "ws", "gen", "kind", "auth_time"}

// leeway is the accepted difference between an issuer's clock and ours.
const leeway = time.Minute

// timely refuses a token that has expired, is not valid yet, or was issued in the future. Every
// token must have an expiry.
func (m members) timely(now time.Time, leeway time.Duration) error {
	exp, expires, err := m.time("exp")
	if err != nil || !expires || !now.Before(time.Unix(exp, 0).Add(leeway)) {
		return ErrInvalid
	}
	for _, name := range []string{"nbf", "iat"} {
		from, there, err := m.time(name)
		if err != nil || there && now.Add(leeway).Before(time.Unix(from, 0)) {
			return ErrInvalid
		}
	}
	return nil
}

// within refuses a token that is valid beyond latest.
func (m members) within(latest time.Time) error {
	exp, _, err := m.time("exp")
	if err != nil || time.Unix(exp, 0).After(latest) {
		return ErrInvalid
	}
	return nil
}

// time returns a claim in seconds since 1970, as in RFC 7519. It drops a fraction.
func (m members) time(name string) (n int64, there bool, err error) {
	raw, there := m[name]
	if !there {
		return 0, false, nil
	}
	whole, fraction, _ := strings.Cut(string(raw), ".")
	if strings.Trim(fraction, "0123456789") != "" {
		return 0, true, ErrInvalid
	}
	return members{name: json.RawMessage(whole)}.number(name)
}

// number returns a claim that must consist of digits only.
func (m members) number(name string) (n int64, there bool, err error) {
	raw, there := m[name]
	if !there {
		return 0, false, nil
	}
	n, err = strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n > maxNumber {
		return 0, true, ErrInvalid
	}
	return n, true, nil
}

const maxNumber = 253402300799 // the last second of the year 9999

// addressed refuses a token for another audience. A token may name several audiences.
func (m members) addressed(audience string) error {
	raw, there := m["aud"]
	if !there {
		if audience != "" {
			return ErrInvalid
		}
		return nil
	}
	var list []*string
	if one, err := m.text("aud"); err == nil {
		list = []*string{&one}
	} else if json.Unmarshal(raw, &list) != nil || list == nil {
		return ErrInvalid
	}
	if audience != "" && !slices.ContainsFunc(list, func(a *string) bool { return a != nil && *a == audience }) {
		return ErrInvalid
	}
	return nil
}

// name returns a claim that is an identifier. It must be short and have only characters that can be
// stored.
func (m members) name(claim string) (string, error) {
	s, err := m.text(claim)
	if err != nil || utf8.RuneCountInString(s) > maxName {
		return "", ErrInvalid
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return "", ErrInvalid
		}
	}
	return s, nil
}

const maxName = 255

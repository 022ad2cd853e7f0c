package schema

import (
	"math/big"
	"net/netip"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	expression "github.com/lanekeeper/lanekeeper/shared/pattern"
)

// holds reports whether a number is within the bound.
func (b bound) holds(got *big.Rat) bool {
	order := got.Cmp(b.want)
	switch b.word {
	case "minimum":
		return order >= 0
	case "maximum":
		return order <= 0
	case "exclusiveMinimum":
		return order > 0
	case "exclusiveMaximum":
		return order < 0
	}
	return new(big.Rat).Quo(got, b.want).IsInt()
}

type format struct {
	name string
	fits func(string) bool
}

// steps returns how many steps it takes to check a text.
func (f *format) steps(text string) int {
	n := 1 + len(text)/10
	if f.name == "regex" {
		n += expression.ParseTime(text)
	}
	return n
}

// formats are the formats that are checked.
var formats = map[string]func(string) bool{
	"date-time": isDateTime, "date": isDate, "time": isTime, "duration": isDuration, "email": isEmail, "hostname": isHostname,
	"ipv4": isIPv4, "ipv6": isIPv6, "uri": isURI, "uri-reference": isReference, "uuid": isUUID, "regex": isRegex, "json-pointer": isPointer,
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

func isDateTime(s string) bool {
	return len(s) > len(time.DateOnly) && isDate(s[:len(time.DateOnly)]) &&
		strings.ContainsRune("Tt", rune(s[len(time.DateOnly)])) && isTime(s[len(time.DateOnly)+1:])
}

// isTime reports whether s is a full-time of RFC 3339, with its offset.
func isTime(s string) bool {
	s = strings.ToUpper(s)
	if len(s) < len("15:04:05Z") || s[2] != ':' || strings.Contains(s, ",") { // which time.Parse takes
		return false
	}
	at, err := time.Parse("15:04:05.999999999Z07:00", s)
	if err != nil {
		return false
	}
	_, offset := at.Zone()
	return offset > -24*60*60 && offset < 24*60*60 && !strings.HasSuffix(s, ":60") // an offset's minutes
}

// isDuration reports whether s is a duration of RFC 3339, appendix A.
func isDuration(s string) bool {
	s, ok := strings.CutPrefix(s, "P")
	if weeks, is := strings.CutSuffix(s, "W"); is {
		return ok && weeks != "" && digits(weeks)
	}
	date, clock, timed := strings.Cut(s, "T")
	return ok && s != "" && units(date, "YMD") && units(clock, "HMS") && (!timed || clock != "")
}

// units reports whether s consists of numbers with units, in the order of the units.
func units(s, order string) bool {
	for s != "" {
		i := strings.IndexAny(s, order)
		if i < 1 || !digits(s[:i]) {
			return false
		}
		order, s = order[strings.IndexByte(order, s[i])+1:], s[i+1:]
		if order == "" && s != "" {
			return false
		}
	}
	return true
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

func isEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 || len(s) > 254 || at > 64 {
		return false
	}
	local, domain := s[:at], s[at+1:]
	if len(local) > 1 && local[0] == '"' && local[len(local)-1] == '"' {
		if strings.ContainsAny(local[1:len(local)-1], `\"`) {
			return false
		}
	} else if strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") ||
		strings.ContainsFunc(local, func(r rune) bool { return !letterOrDigit(r) && !strings.ContainsRune(".!#$%&'*+-/=?^_`{|}~", r) }) {
		return false
	}
	if inner, ok := strings.CutPrefix(domain, "["); ok && strings.HasSuffix(inner, "]") {
		inner = strings.TrimSuffix(inner, "]")
		if six, ok := strings.CutPrefix(inner, "IPv6:"); ok {
			return isIPv6(six)
		}
		return isIPv4(inner)
	}
	return isHostname(domain)
}

func letterOrDigit(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

func isHostname(s string) bool {
	s = strings.TrimSuffix(s, ".")
	return len(s) <= 253 && !slices.ContainsFunc(strings.Split(s, "."), func(label string) bool {
		return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool { return r != '-' && !letterOrDigit(r) })
	})
}

func isIPv4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6() && a.Zone() == ""
}

func isURI(s string) bool {
	u, ok := reference(s)
	return ok && u.IsAbs()
}

func isReference(s string) bool {
	_, ok := reference(s)
	return ok
}

func reference(s string) (*url.URL, bool) {
	u, err := url.Parse(s)
	if err != nil || strings.ContainsAny(s, `\`) {
		return nil, false
	}
	if host := u.Hostname(); strings.Contains(host, ":") { // it must be an IPv6 address in brackets
		return u, strings.Contains(u.Host, "[") && strings.Contains(u.Host, "]") && isIPv6(host)
	}
	return u, true
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range []byte(s) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (r == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", rune(r)) {
			return false
		}
	}
	return true
}

func isRegex(s string) bool {
	_, err := syntax.Parse(s, syntax.Perl)
	return err == nil
}

func isPointer(s string) bool {
	if s == "" {
		return true
	}
	rest := strings.NewReplacer("~0", "", "~1", "").Replace(s)
	return s[0] == '/' && !strings.Contains(rest, "~")
}

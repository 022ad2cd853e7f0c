// Package trace names causal chains. A trace id says which surface started the chain and when. The
// context carries the id through all work done for the chain:
//
//	hb_0mh8c1v2q_a7x2p1k9d4
//	│  │         └ 10 random characters
//	│  └ Unix milliseconds in base 36, fixed width 9
//	└ the surface that started it
//
// Ids of one surface sort as text in time order: across processes to the millisecond, within one
// process in the order of their creation.
package trace

import (
	"errors"
	"fmt"
	"time"
)

// ID is a trace id. Only a text that Parse accepts is an id; the zero value is not one.
type ID string

// Surface is the two-letter prefix that says which function started a trace.
type Surface string

// The surfaces that start traces.
const (
	Heartbeat   Surface = "hb"
	Operate     Surface = "op"
	Chat        Surface = "ch"
	Webhook     Surface = "wh"
	Coordinator Surface = "co"
	Worker      Surface = "wk"
)

// Name returns the name of a surface, such as heartbeat. That of an unknown prefix is the prefix.
func (s Surface) Name() string {
	switch s {
	case Heartbeat:
		return "heartbeat"
	case Operate:
		return "operate"
	case Chat:
		return "chat"
	case Webhook:
		return "webhook"
	case Coordinator:
		return "coordinator"
	case Worker:
		return "worker"
	}
	return string(s)
}

func (s Surface) known() bool {
	switch s {
	case Heartbeat, Operate, Chat, Webhook, Coordinator, Worker:
		return true
	}
	return false
}

// Info is what a trace id says.
type Info struct {
	Surface Surface
	Time    time.Time // UTC, to the millisecond
}

// ErrInvalid is wrapped by every error that Parse returns.
var ErrInvalid = errors.New("not a trace id")

// An id consists of prefix, '_', time, '_', random.
const (
	prefixWidth = 2
	timeWidth   = 9
	randomWidth = 10
	timeAt      = prefixWidth + 1
	randomAt    = timeAt + timeWidth + 1
	width       = randomAt + randomWidth

	maxMillis   = 36*36*36*36*36*36*36*36*36 - 1 // in the year 5188
	randomSpace = 36 * (maxMillis + 1)           // the number of random parts
)

// Parse returns s as an id, together with its Info. An error wraps ErrInvalid and does not repeat
// s, because s may be untrusted. Parse is strict: each id has exactly one text, so ids can be
// compared as text.
func Parse(s string) (ID, Info, error) {
	if len(s) != width {
		return "", Info{}, fmt.Errorf("%w: length is not %d", ErrInvalid, width)
	}
	surface := Surface(s[:prefixWidth])
	if !surface.known() {
		return "", Info{}, fmt.Errorf("%w: unknown surface", ErrInvalid)
	}
	if s[timeAt-1] != '_' || s[randomAt-1] != '_' {
		return "", Info{}, fmt.Errorf("%w: parts are not separated by _", ErrInvalid)
	}
	millis, ok := parse36(s[timeAt : timeAt+timeWidth])
	if !ok {
		return "", Info{}, fmt.Errorf("%w: time is not lower case base 36", ErrInvalid)
	}
	if _, ok := parse36(s[randomAt:]); !ok {
		return "", Info{}, fmt.Errorf("%w: random part is not lower case base 36", ErrInvalid)
	}
	return ID(s), Info{Surface: surface, Time: time.UnixMilli(int64(millis)).UTC()}, nil
}

// format is the inverse of Parse.
func format(s Surface, millis, random uint64) ID {
	b := make([]byte, width)
	copy(b, s)
	b[timeAt-1], b[randomAt-1] = '_', '_'
	format36(b[timeAt:timeAt+timeWidth], millis)
	format36(b[randomAt:], random)
	return ID(b)
}

const digits = "0123456789abcdefghijklmnopqrstuvwxyz"

// format36 writes n into b in base 36, with leading zeros.
func format36(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = digits[n%36]
		n /= 36
	}
}

// parse36 reads a number in base 36. Callers pass at most 12 digits, so that it can't overflow.
func parse36(s string) (n uint64, ok bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			n = n*36 + uint64(c-'0')
		case 'a' <= c && c <= 'z':
			n = n*36 + uint64(c-'a') + 10
		default:
			return 0, false
		}
	}
	return n, true
}

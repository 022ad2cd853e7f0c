package redact

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"strings"
)

const (
	// minKnown is the shortest value, in bytes, that is searched for. Shorter ones occur by chance.
	minKnown = 4
	// minBase64 is the same limit for values in base64.
	minBase64 = 6
	// minLine is the same limit for one line of a value with several lines.
	minLine = 16
	// maxLayers is the number of nested encodings that are decoded.
	maxLayers = 3
)

// needle is one encoded form of a value.
type needle struct {
	text string
	// loose says that the first and last characters depend on the surrounding text, as in base64.
	// Then the characters around a match are removed too.
	loose bool
	id    int // index among the needles of a known
}

// known finds values. It is immutable.
type known struct {
	values  map[string]bool
	first   *[1 << 10]uint64    // bit set of the first two bytes of all needles
	needles map[uint32][]needle // by their first four bytes
	count   int
	spaces  bool // some value contains a space
	longest int  // length of the longest needle, in bytes
}

// including returns k with one more value, or k itself if the value is known already or must not be
// searched for.
func (k *known) including(value string) *known {
	value = strings.TrimSpace(value)
	switch {
	case len(value) < minKnown || k != nil && k.values[value]:
		return k
	case value == "true" || value == "false" || value == "null" || strings.Contains(Mark, value):
		return k
	}
	more := &known{values: map[string]bool{}, first: new([1 << 10]uint64), needles: map[uint32][]needle{}}
	if k != nil {
		more.values, more.needles, more.count, more.spaces, more.longest = maps.Clone(k.values), maps.Clone(
			k.needles), k.count, k.spaces, k.longest
		*more.first = *k.first
	}
	more.values[value] = true
	more.add(value)
	if scheme, rest, two := strings.Cut(value, " "); two && len(scheme) <= 16 && len(rest) >= 8 && !strings.ContainsAny(rest, " \n") {
		more.add(rest) // Bearer abc…: the token alone is as secret
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minLine && line != value {
				more.add(line)
			}
		}
	}
	return more
}

// add adds all forms of a value to the needles.
func (k *known) add(value string) {
	k.spaces = k.spaces || strings.Contains(value, " ")
	k.put(needle{text: value})
	k.put(needle{text: hex.EncodeToString([]byte(value))})
	k.put(needle{text: strings.ToUpper(hex.EncodeToString([]byte(value)))})
	if len(value) < minBase64 {
		return
	}
	// The base64 form of a value inside a longer text depends on the value's offset modulo 3.
	for skip := range 3 {
		padded := append(make([]byte, skip, skip+len(value)), value...)
		begin := (8*skip + 5) / 6 // characters that depend on the text before the value
		end := len(padded) * 8 / 6
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			k.put(needle{text: alphabet.EncodeToString(padded)[begin:end], loose: true})
		}
	}
}

func (k *known) put(n needle) {
	head := four(n.text, 0)
	for _, there := range k.needles[head] {
		if there.text == n.text && there.loose == n.loose {
			return
		}
	}
	n.id = k.count
	k.count++
	k.longest = max(k.longest, len(n.text))
	// A new slice, because another known may share the old one.
	k.needles[head] = append(k.needles[head][:len(k.needles[head]):len(k.needles[head])], n)
	two := head >> 16
	k.first[two>>6] |= 1 << (two & 63)
}

// four returns four bytes as a number.
func four(s string, i int) uint32 {
	_ = s[i+3]
	return uint32(s[i])<<24 | uint32(s[i+1])<<16 | uint32(s[i+2])<<8 | uint32(s[i+3])
}

// find appends the parts of the source that hold a value, in any encoding, to spans, in no
// particular order.
func (k *known) find(s string, spans []span) []span {
	if k == nil {
		return spans
	}
	return k.look(view{text: s}, maxLayers, spans)
}

func (k *known) look(v view, layers int, spans []span) []span {
	spans = k.scan(v, spans)
	if layers == 0 {
		return spans
	}
	for _, e := range nested {
		if under, ok := v.decoded(e, false); ok {
			spans = k.look(under, layers-1, spans)
		}
	}
	if k.spaces && strings.IndexByte(v.text, '+') >= 0 {
		if under, ok := v.decoded(inQuery, false); ok {
			spans = k.scan(under, spans)
		}
	}
	return spans
}

// scan searches one view.
func (k *known) scan(v view, spans []span) []span {
	s := v.text
	var ends []int // end of the last match of each needle, so that overlapping matches count once
	for i := 0; i+minKnown <= len(s); i++ {
		if two := uint32(s[i])<<8 | uint32(s[i+1]); k.first[two>>6]>>(two&63)&1 == 0 {
			continue
		}
		for _, n := range k.needles[four(s, i)] {
			if ends != nil && i < ends[n.id] || !strings.HasPrefix(s[i:], n.text) {
				continue
			}
			if ends == nil {
				ends = make([]int, k.count)
			}
			start, end := i, i+len(n.text)
			ends[n.id] = end
			if n.loose {
				start, end = loosened(s, start, end)
			}
			from, to := v.source(start, end)
			spans = append(spans, span{from, to})
		}
	}
	return spans
}

// loosened extends a part of base64 by the surrounding characters that hold bits of it.
func loosened(s string, start, end int) (int, int) {
	if start > 0 && base64Byte(s[start-1]) {
		start--
	}
	if end < len(s) && base64Byte(s[end]) {
		end++
	}
	for padding := 0; padding < 2 && end < len(s) && s[end] == '='; padding++ {
		end++
	}
	return start, end
}

func base64Byte(c byte) bool {
	return alphanumeric(c) || c == '+' || c == '/' || c == '-' || c == '_'
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

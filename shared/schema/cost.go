package schema

import (
	"encoding/binary"
	"maps"
	"slices"
)

// atOnce returns the schemas that a schema applies to the same value.
func (n *node) atOnce() []*node {
	out := slices.Concat(n.all, n.any, n.one)
	for _, s := range []*node{n.ref, n.not, n.cond, n.then, n.otherwise} {
		if s != nil {
			out = append(out, s)
		}
	}
	return slices.AppendSeq(out, maps.Values(n.with))
}

// hasParts reports whether a schema applies other schemas to parts of a value.
func (n *node) hasParts() bool {
	return n.props != nil || n.patterns != nil || n.more != nil || n.names != nil ||
		n.prefix != nil || n.items != nil || n.contains != nil
}

// bounded refuses a schema that applies itself to the same value again, and a schema that may visit
// one value too often. It follows which schemas may meet at one value, and how often each is
// applied, from the whole value down to its parts. It follows each set of schemas only once. It
// also refuses a schema that takes too many steps to follow.
func (c *compiler) bounded(root *node) {
	w := &walk{place: map[*node]int{}, matched: map[match]bool{}, step: c.step}
	for _, path := range slices.Sorted(maps.Keys(c.nodes)) {
		if n := c.nodes[path]; !w.sort(n, map[*node]bool{}) {
			c.refuse(n.path, "applies itself to the same value, without an end")
			return
		}
	}
	slices.Reverse(w.order) // schemas that apply others come before these
	for i, n := range w.order {
		w.place[n] = i
	}
	seen := map[string]bool{}
	next, found := []visits(nil), []visits{{root: 1}}
	for {
		for _, v := range found {
			if !w.expand(v) {
				c.refuse("", "may take too long to check: fewer alternatives within alternatives, less recursion that branches")
				return
			}
			if key := w.key(v); key != "" && !seen[key] {
				seen[key] = true
				next = append(next, v)
			}
		}
		if len(next) == 0 || c.err != nil {
			return
		}
		found, next = w.parts(next[len(next)-1]), next[:len(next)-1]
	}
}

// visits counts how often each schema is applied to one value.
type visits map[*node]int

// walk knows the order in which schemas apply each other to the same value, and which patterns
// match which names. Each of its steps takes about a tenth of a microsecond.
type walk struct {
	order   []*node
	place   map[*node]int
	matched map[match]bool
	step    func(n int) bool // uses steps, and reports whether enough were left
}

type match struct {
	pattern *pattern
	name    string
}

func (w *walk) matches(p *pattern, name string) bool {
	key := match{p, name}
	matches, known := w.matched[key]
	if !known && w.step(len(name)*p.size/matchSteps) {
		matches = p.re.MatchString(name)
		w.matched[key] = matches
	}
	return matches
}

// add adds applications of a schema.
func (w *walk) add(v visits, n *node, times int) {
	if n != nil && w.step(1) {
		v[n] = min(v[n]+times, MaxVisits+1)
	}
}

// sort places a schema after those that it applies. It returns false if the schema applies itself.
func (w *walk) sort(n *node, under map[*node]bool) bool {
	if under[n] {
		return false
	}
	if _, done := w.place[n]; done {
		return true
	}
	under[n] = true
	for _, s := range n.atOnce() {
		if !w.sort(s, under) {
			return false
		}
	}
	delete(under, n)
	w.place[n] = len(w.order)
	w.order = append(w.order, n)
	return true
}

func (w *walk) places(v visits) []int {
	places := make([]int, 0, len(v))
	for n := range v {
		places = append(places, w.place[n])
	}
	slices.Sort(places)
	return places
}

// key identifies a set of visits by the schemas that have parts and their counts. It returns "" if
// none has parts.
func (w *walk) key(v visits) string {
	var key []byte
	for _, at := range w.places(v) {
		if n := w.order[at]; n.hasParts() {
			key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(at)), uint64(v[n])) //nolint:gosec // neither is negative
		}
	}
	return string(key)
}

// expand adds the schemas that v applies to the same value. It returns false if there are too many
// visits, or if no steps are left.
func (w *walk) expand(v visits) bool {
	waiting, total := w.places(v), 0
	for len(waiting) > 0 {
		n := w.order[waiting[0]]
		waiting = waiting[1:]
		if total += v[n]; total+len(waiting) > MaxVisits || !w.step(1) {
			return false
		}
		for _, s := range n.atOnce() {
			if _, there := v[s]; !there {
				at, _ := slices.BinarySearch(waiting, w.place[s])
				waiting = slices.Insert(waiting, at, w.place[s])
			}
			if w.add(v, s, v[n]); total+len(waiting) > MaxVisits {
				return false
			}
		}
	}
	return true
}

// parts returns the schemas that may meet at each kind of part of a value.
func (w *walk) parts(v visits) []visits {
	out := append(w.properties(v), w.elements(v)...)
	names := visits{}
	for n, times := range v {
		w.add(names, n.names, times)
	}
	return append(out, names)
}

// properties returns the schemas that may meet at each property that one of them names, and at any
// other property. For the other property it assumes that all patterns match.
func (w *walk) properties(v visits) []visits {
	named, other := map[string]visits{}, visits{}
	for n, times := range v {
		for name, s := range n.props {
			if named[name] == nil && w.step(setSteps) {
				named[name] = visits{}
			}
			w.add(named[name], s, times)
		}
	}
	for n, times := range v {
		more := n.more
		if more != nil && more.never {
			more = nil // a refused property is not visited
		}
		for _, r := range n.patterns {
			w.add(other, r.node, times)
		}
		if w.add(other, more, times); more == nil && n.patterns == nil {
			continue
		}
		for name, at := range named {
			matched := n.props[name] != nil
			for _, r := range n.patterns {
				if !w.step(1) {
					return nil
				}
				if w.matches(r.pattern, name) {
					matched = true
					w.add(at, r.node, times)
				}
			}
			if !matched {
				w.add(at, more, times)
			}
		}
	}
	return append(slices.Collect(maps.Values(named)), other)
}

// elements returns the schemas that may meet at each array index that one of them names, and at any
// later index.
func (w *walk) elements(v visits) (out []visits) {
	prefixes := 0
	for n := range v {
		prefixes = max(prefixes, len(n.prefix))
	}
	for range prefixes + 1 {
		if w.step(setSteps) {
			out = append(out, visits{})
		}
	}
	for n, times := range v {
		for i, at := range out {
			if n.items == nil && n.contains == nil && i >= len(n.prefix) || !w.step(1) {
				break
			}
			s := n.items
			if i < len(n.prefix) {
				s = n.prefix[i]
			}
			w.add(at, s, times)
			w.add(at, n.contains, times)
		}
	}
	return out
}

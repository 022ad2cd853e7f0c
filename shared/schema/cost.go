package schema

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
)

// atOnce are the schemas that a schema applies to the same value.
func (n *node) atOnce() []*node {
	out := slices.Concat(n.all, n.any, n.one)
	for _, s := range []*node{n.ref, n.not, n.cond, n.then, n.otherwise} {
		if s != nil {
			out = append(out, s)
		}
	}
	return slices.AppendSeq(out, maps.Values(n.with))
}

// bounded refuses a schema that applies itself to the same value again, and one by
// which a value may have to be looked at too often. It follows which schemas may meet
// at one value, and how often each, from the whole down into its parts; what it has
// seen before leads to nothing new.
func (c *compiler) bounded(root *node) {
	w := &walk{place: map[*node]int{}}
	for _, path := range slices.Sorted(maps.Keys(c.nodes)) {
		if n := c.nodes[path]; !w.sort(n, map[*node]bool{}) {
			c.refuse(n.path, "applies itself to the same value, without an end")
			return
		}
	}
	slices.Reverse(w.order) // those that apply others come before these
	for i, n := range w.order {
		w.place[n] = i
	}
	seen := map[string]bool{}
	next := []visits{{root: 1}}
	for len(next) > 0 {
		now := next[len(next)-1]
		next = next[:len(next)-1]
		key := w.key(now)
		if seen[key] {
			continue
		}
		if seen[key] = true; len(seen) > maxStates || !w.expand(now) {
			c.refuse("", "may take too long to check: fewer alternatives within alternatives, less recursion that branches")
			return
		}
		next = append(next, parts(now)...)
	}
}

// visits are schemas that meet at one value, and how often each is asked.
type visits map[*node]int

func (v visits) add(n *node, times int) {
	if n != nil {
		v[n] = min(v[n]+times, MaxVisits+1)
	}
}

// walk knows the order in which schemas apply one another to the same value.
type walk struct {
	order []*node
	place map[*node]int
}

// sort puts a schema behind those that it applies; false: it applies itself.
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

func (w *walk) sorted(v visits) []*node {
	return slices.SortedFunc(maps.Keys(v), func(a, b *node) int { return cmp.Compare(w.place[a], w.place[b]) })
}

func (w *walk) key(v visits) string {
	var key []byte
	for _, n := range w.sorted(v) {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(w.place[n])), uint64(v[n])) //nolint:gosec // neither is negative
	}
	return string(key)
}

// expand adds the schemas that those apply to the same value; false: they are asked
// too often.
func (w *walk) expand(v visits) bool {
	waiting, total := w.sorted(v), 0
	for len(waiting) > 0 {
		n := waiting[0]
		waiting = waiting[1:]
		if total += v[n]; total > MaxVisits {
			return false
		}
		for _, s := range n.atOnce() {
			if _, there := v[s]; !there {
				at, _ := slices.BinarySearchFunc(waiting, s, func(a, b *node) int { return cmp.Compare(w.place[a], w.place[b]) })
				waiting = slices.Insert(waiting, at, s)
			}
			v.add(s, v[n])
		}
	}
	return true
}

// parts are the schemas that may meet at each kind of part of a value.
func parts(v visits) (out []visits) {
	names, prefixes := map[string]bool{"": true}, 0
	for n := range v {
		for name := range n.props {
			names[name] = true
		}
		prefixes = max(prefixes, len(n.prefix))
	}
	for name := range names { // "" stands for all others too: whatever pattern may match it
		at, other := visits{}, visits{}
		for n, times := range v {
			at.add(n.props[name], times)
			matched := n.props[name] != nil
			for _, r := range n.patterns {
				other.add(r.node, times)
				if r.re.MatchString(name) {
					matched = true
					at.add(r.node, times)
				}
			}
			other.add(n.more, times)
			if !matched {
				at.add(n.more, times)
			}
		}
		out = append(out, at)
		if name == "" {
			out = append(out, other)
		}
	}
	for i := range prefixes + 1 {
		at := visits{}
		for n, times := range v {
			if i < len(n.prefix) {
				at.add(n.prefix[i], times)
			} else {
				at.add(n.items, times)
			}
			at.add(n.contains, times)
		}
		out = append(out, at)
	}
	name := visits{}
	for n, times := range v {
		name.add(n.names, times)
	}
	return slices.DeleteFunc(append(out, name), func(v visits) bool { return len(v) == 0 })
}

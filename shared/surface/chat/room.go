package chat

import (
	"errors"
	"io"
	"net/netip"
	"sync"
)

const (
	// maxTaken is the most bytes of bodies that this process holds at once, of all callers.
	maxTaken = 32 << 20
	// maxFrom is the most bytes of them that come from one network.
	maxFrom = maxTaken / 4
)

// errNoRoom says that as many bytes of bodies are in memory as may be.
var errNoRoom = errors.New("no room for the body")

// taken counts the bytes of bodies in memory. The zero value has none.
type taken struct {
	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int // no zeros
}

// add counts n more bytes from a network, or fewer. It reports whether there is room for all that is
// counted.
func (t *taken) add(from netip.Prefix, n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from == nil {
		t.from = map[netip.Prefix]int{}
	}
	t.all += n
	t.from[from] += n
	now := t.from[from]
	if now == 0 {
		delete(t.from, from)
	}
	return t.all <= maxTaken && now <= maxFrom
}

// room counts the bytes of a body as they arrive: who sends slowly takes little.
type room struct {
	body  io.Reader
	taken *taken
	from  netip.Prefix
	n     int
}

// Read implements [io.Reader].
func (m *room) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	m.n += n
	if !m.taken.add(m.from, n) {
		return 0, errNoRoom
	}
	return n, err
}

// free gives back what was counted, once.
func (m *room) free() {
	m.taken.add(m.from, -m.n)
	m.n = 0
}

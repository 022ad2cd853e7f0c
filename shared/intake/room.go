package intake

import (
	"errors"
	"io"
	"net/netip"
	"sync"
)

// errFull says that as many bytes of bodies are in memory as may be.
var errFull = errors.New("no room for the body")

// Room counts the bytes of bodies in memory. The zero value has none. It is safe for concurrent use
// and must not be copied.
type Room struct {
	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int // no zeros
}

// add counts n more bytes from a network, or fewer. It reports whether all that is counted fits.
func (m *Room) add(from netip.Prefix, n, total int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.from == nil {
		m.from = map[netip.Prefix]int{}
	}
	m.all += n
	m.from[from] += n
	now := m.from[from]
	if now == 0 {
		delete(m.from, from)
	}
	return m.all <= total && now <= total/2
}

// counter counts the bytes of a body as they arrive: a slow sender takes little.
type counter struct {
	body  io.Reader
	room  *Room
	total int
	from  netip.Prefix
	n     int
}

// Read implements [io.Reader].
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	c.n += n
	if !c.room.add(c.from, n, c.total) {
		return 0, errFull
	}
	return n, err
}

// free gives back what was counted, once.
func (c *counter) free() {
	c.room.add(c.from, -c.n, c.total)
	c.n = 0
}

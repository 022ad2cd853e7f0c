package trace

import (
	crand "crypto/rand"
	"encoding/binary"
	"io"
	"math/bits"
	"sync"
	"time"
)

// Source makes trace ids. It is safe for concurrent use; a process has one.
//
// Its ids sort in the order of their creation (within a surface) whatever the
// clock does. In a new millisecond the random part is drawn afresh; when the
// millisecond is still the last one, or the clock has stepped back behind it,
// the last id is counted up by a random amount, and a carry moves on to the
// next millisecond. So after a step back ids keep the latest time seen until
// the clock has caught up.
type Source struct {
	now  func() time.Time
	rand io.Reader

	mu     sync.Mutex
	millis uint64 // of the last id
	random uint64 // of the last id
	begun  bool   // whether there is a last id
	buf    [8]byte
}

// NewSource returns a Source that reads the time from now and randomness from
// rand, in production crypto/rand.Reader. A rand that fails is replaced by
// crypto/rand for that id.
func NewSource(now func() time.Time, rand io.Reader) *Source {
	return &Source{now: now, rand: rand}
}

// New returns a new id for a trace that the surface, one of the constants, starts.
func (s *Source) New(surface Surface) ID {
	millis, random := s.next()
	return format(surface, millis, random)
}

// next moves the last id on and returns it.
func (s *Source) next() (millis, random uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	// The clock is read under the lock: read before it, two goroutines could
	// enter in the other order, and the later would look like a step back.
	millis = clamp(s.now().UnixMilli())
	switch {
	case !s.begun || millis > s.millis:
		s.begun, s.millis, s.random = true, millis, s.below(randomSpace)
	default:
		// An increment of 2³¹ on average leaves room for a million ids a
		// millisecond, and an id is still not guessable from the one before.
		s.random += 1 + s.below(1<<32)
		if s.random >= randomSpace {
			s.millis, s.random = min(s.millis+1, maxMillis), s.below(randomSpace)
		}
	}
	return s.millis, s.random
}

// below returns a random number in [0, n).
func (s *Source) below(n uint64) uint64 {
	if _, err := io.ReadFull(s.rand, s.buf[:]); err != nil {
		crand.Read(s.buf[:]) // never fails
	}
	// Scaling 64 random bits prefers some numbers by less than 1 part in 4000,
	// and, unlike drawing again, ends with every reader.
	scaled, _ := bits.Mul64(binary.LittleEndian.Uint64(s.buf[:]), n)
	return scaled
}

// clamp keeps the time within what nine digits can say.
func clamp(millis int64) uint64 {
	return uint64(min(max(millis, 0), maxMillis))
}

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
// Its ids sort in the order of their creation (within a surface), whatever the clock does. In a new
// millisecond next draws a new random part. In the same millisecond, or when the clock has stepped
// back, next adds a random amount to the last id; an overflow moves on to the next millisecond. So
// after a step back, ids keep the latest time seen until the clock has caught up.
type Source struct {
	now  func() time.Time
	rand io.Reader

	mu     sync.Mutex
	millis uint64 // of the last id
	random uint64 // of the last id
	begun  bool   // whether there is a last id
	buf    [8]byte
}

// NewSource returns a Source that reads the time from now and randomness from rand. In production
// rand is crypto/rand.Reader. When rand fails, crypto/rand replaces it for that id.
func NewSource(now func() time.Time, rand io.Reader) *Source {
	return &Source{now: now, rand: rand}
}

// New returns a new id for a trace that the surface starts. The surface is one of the constants.
func (s *Source) New(surface Surface) ID {
	millis, random := s.next()
	return format(surface, millis, random)
}

// next advances the last id and returns it.
func (s *Source) next() (millis, random uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	// Read the clock under the lock. Otherwise two goroutines could read it in one order and take
	// the lock in the other, and the second would look like a step back of the clock.
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
	// Scaling 64 random bits prefers some numbers by less than 1 part in 4000. Unlike drawing
	// again, it ends with every reader.
	scaled, _ := bits.Mul64(binary.LittleEndian.Uint64(s.buf[:]), n)
	return scaled
}

// clamp limits the time to what nine digits can express.
func clamp(millis int64) uint64 {
	return uint64(min(max(millis, 0), maxMillis))
}

package lane_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A history is the calls of clients on one lane, with their answers. The model below says which
// histories are legal. A history is legal when every call can be given one moment between its
// beginning and its end so that, in the order of these moments, a single lease register would have
// given the same answers.
//
// Time is virtual and passes in ticks of ten minutes, at any moment and also during calls. The
// model does not know when it passes. It knows that a call reads the clock between its beginning
// and its end. An answer that contains the end of a hold reveals the reading: on Postgres for the
// whole call. A statement on SQLite reads the clock again for each of its parts, so time may pass
// between the decision and the reported end. Times to live are odd multiples of five minutes, so
// that nothing depends on real time.

type verb int

const (
	doAcquire verb = iota
	doRenew
	doRelease
	doWrite // proven
	doRead  // of the state that the lane protects
	doLook  // at the lane
	doForce // its release
)

type call struct {
	verb  verb
	token string
	ttl   int64  // minutes
	value string // to write
	since int64  // the clock when it began
}

type answer struct {
	yes     bool   // acquired, renewed, released, written, held, there was a hold to force
	fence   int64  // 0: not in the answer
	value   string // that was read
	until   int64  // the clock when the answer came
	at      int64  // the clock as the answer reveals it
	pinned  bool   // whether at is known
	frozen  bool   // whether the clock stood still for the call
	renewed bool   // whether a write also renewed the hold
}

// state is the state of a lane, in a form that the checker can compare.
type state struct {
	token string // of the current hold; "" none
	fence int64
	end   int64 // minutes
	value string
}

// live reports whether the hold is live at a reading of the clock.
func (s state) live(clock int64) bool { return s.token != "" && s.end > clock*10 }

func (s state) step(c call, a answer) (bool, state) {
	if a.pinned && (a.at < c.since || a.at > a.until) {
		return false, s // it did not read the clock while it ran
	}
	earliest, latest := c.since, a.until
	if a.pinned {
		latest = a.at
	}
	if a.pinned && a.frozen {
		earliest = a.at
	}
	// Time ends holds: a hold that is live at the earliest reading may be over at the latest.
	mayBeLive, mayBeOver := s.live(earliest), !s.live(latest)
	mine := s.token == c.token && s.token != ""
	next := s
	switch c.verb {
	case doAcquire:
		if !a.yes {
			return mayBeLive && !mine && (a.fence == 0 || a.fence == s.fence), s
		}
		next.token, next.fence, next.end = c.token, a.fence, a.at*10+c.ttl
		if mine {
			return a.fence == s.fence, next // a retry
		}
		return mayBeOver && a.fence > s.fence, next
	case doRenew, doWrite:
		if !a.yes {
			return mayBeOver || !mine, s
		}
		if c.verb == doWrite {
			next.value = c.value
		}
		if c.verb == doRenew || a.renewed {
			next.end = a.at*10 + c.ttl
		}
		return mayBeLive && mine, next
	case doRelease:
		if !a.yes {
			return mayBeOver || !mine, s
		}
		next.token, next.end = "", 0
		return mayBeLive && mine, next
	case doForce:
		if !a.yes {
			return mayBeOver, s
		}
		next.token, next.end = "", 0
		return mayBeLive, next
	case doLook:
		if a.yes {
			return mayBeLive && a.fence == s.fence, s
		}
		return mayBeOver && a.fence == s.fence, s
	case doRead:
		return a.value == s.value, s
	}
	return false, s
}

var leaseRegister = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, c, a any) (bool, any) { return s.(state).step(c.(call), a.(answer)) },
	DescribeOperation: func(c, a any) string {
		return describe(c.(call), a.(answer))
	},
}

func describe(c call, a answer) string {
	what := [...]string{"acquire", "renew", "release", "write", "read", "look", "force"}[c.verb]
	text := fmt.Sprintf("%s %.4s %dm %s [%d..%d] → %v fence %d %s", what, c.token, c.ttl, c.value, c.since, a.until, a.yes, a.fence, a.value)
	if a.pinned {
		text += fmt.Sprintf(" at %d", a.at)
	}
	return text
}

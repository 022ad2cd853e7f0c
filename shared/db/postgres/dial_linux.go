package postgres

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unacknowledged is for how long a peer may leave what was sent unacknowledged:
// keepalives don't count meanwhile.
const unacknowledged = 10 * time.Second

// limitUnacknowledged ends a connection whose peer has gone silent.
func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		// A socket of another kind than TCP has no such limit, and needs none.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
	})
	if cerr != nil {
		err = fmt.Errorf("limit unacknowledged data: %w", cerr)
	}
	return err
}

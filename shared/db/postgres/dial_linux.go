package postgres

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unacknowledged is how long a peer may leave sent data unacknowledged. Keepalives are not sent
// during that time.
const unacknowledged = 10 * time.Second

// limitUnacknowledged makes the kernel close a connection whose peer is silent.
func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		// A socket other than TCP has no such limit and needs none.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
	})
	if cerr != nil {
		err = fmt.Errorf("limit unacknowledged data: %w", cerr)
	}
	return err
}

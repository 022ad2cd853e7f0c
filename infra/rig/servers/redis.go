package servers

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// StartRedis starts a Redis or a Valkey without persistence, in dir or in a temporary directory if
// dir is "". Further arguments are options of the server. The context bounds only the start. It returns a
// [*MissingError] when there is neither.
func StartRedis(ctx context.Context, dir string, more ...string) (*Server, error) {
	path, err := redis.path(ctx)
	if err != nil {
		return nil, err
	}
	home, err := newHome(dir)
	if err != nil {
		return nil, err
	}
	return open(ctx, kind{
		name: "redis",
		url:  func(port int) string { return fmt.Sprintf("redis://127.0.0.1:%d/0", port) },
		command: func(port int) ([]string, error) {
			return append([]string{
				path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", home.dir,
				"--save", "", "--appendonly", "no", "--daemonize", "no",
			}, more...), nil
		},
		probe:  probeRedis,
		stop:   [2]syscall.Signal{Clean: syscall.SIGTERM, Immediate: syscall.SIGKILL},
		orphan: syscall.SIGKILL,
	}, home)
}

// probeRedis sends a command that needs no client library.
func probeRedis(ctx context.Context, url string) error {
	address := strings.TrimSuffix(strings.TrimPrefix(url, "redis://"), "/0")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // works on a new connection
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil {
		return err
	}
	if got := string(answer[:n]); got != "+PONG\r\n" {
		return fmt.Errorf("it answers %q", got)
	}
	return nil
}

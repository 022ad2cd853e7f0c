package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// listen opens the configured address.
func (c *console) listen(ctx context.Context, cfg app.Config) (net.Listener, error) {
	addr := cfg.Addr
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &hinted{
			fmt.Errorf("the address %s is taken, by another lanekeeper perhaps", addr),
			"Stop that one, or choose another address: ADDR=" + neighbour(addr) + " " + c.name + " dev\n" + sharing(cfg),
		}
	case err != nil:
		return nil, &hinted{fmt.Errorf("listen on %s: %w", addr, err), "ADDR says where to listen, for example 127.0.0.1:8080."}
	}
	return l, nil
}

// sharing says what a second process works on that is started with the same configuration at another address.
func sharing(cfg app.Config) string {
	if cfg.OnPostgres() {
		return "It works on the same database, DATABASE_URL. If a Lanekeeper of yours uses that already, you need no second one."
	}
	return "It works on the same file, " + cfg.SQLitePath + ". If a Lanekeeper of yours uses that already, you need no second one;\n" +
		"SQLITE_PATH names another file for one that stands alone."
}

// neighbour returns the address with the next port.
func neighbour(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == math.MaxUint16 {
		return "127.0.0.1:8081"
	}
	return net.JoinHostPort(host, strconv.FormatUint(n+1, 10))
}

// urlOf returns the URL at which a browser on this machine reaches a listener.
func urlOf(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		addr = net.JoinHostPort("localhost", port)
	}
	return "http://" + addr
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      10 * time.Minute, // a request may wait for a whole beat
		IdleTimeout:       2 * time.Minute,
		// The API refuses smaller headers with a problem. Larger ones get net/http's plain 431.
		MaxHeaderBytes: 256 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// drainLimit is the time limit for running work to end.
const drainLimit = 10 * time.Second

// serve serves requests until ctx ends or the process cannot continue. Then it lets running work
// end: first the requests, then the beats, which park.
func serve(ctx context.Context, s *http.Server, l net.Listener, b *beats) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	var err error
	select {
	case err = <-failed:
		b.end()
	case err = <-b.broken:
		b.log.InfoContext(ctx, "stopping: the database was migrated by a newer build")
		b.end()
	case <-ctx.Done():
		b.log.InfoContext(ctx, "stopping: what runs parks")
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	if serr := s.Shutdown(limited); serr != nil {
		err = errors.Join(err, s.Close())
	}
	parked := make(chan struct{})
	go func() { b.working.Wait(); close(parked) }()
	select {
	case <-parked:
	case <-limited.Done():
		return errors.Join(err, fmt.Errorf("what runs did not come to an end within %s: what it holds ends by expiry", drainLimit))
	}
	b.log.InfoContext(ctx, "stopped")
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PostgresOptions configure a PostgreSQL. With the zero value it is as durable as in production.
type PostgresOptions struct {
	// MaxConnections is 100 if zero.
	MaxConnections int

	// Fast disables fsync: data survives a crash of the server, but not of the machine. Commits
	// stay synchronous.
	Fast bool

	// Quiet disables the server's background work (autovacuum, checkpoints, snapshots in the log),
	// for tests that count log flushes.
	Quiet bool

	// Settings are further server settings by name. They override all others.
	Settings map[string]string
}

// StartPostgres starts a new PostgreSQL in dir, or in a temporary directory if dir is "". It
// listens on loopback only, without passwords. Server.URL is the superuser's. The context bounds
// only the start. It returns a [*MissingError] when there is no PostgreSQL 15 or newer.
func StartPostgres(ctx context.Context, dir string, opts PostgresOptions) (*Server, error) {
	bin, err := postgres.path(ctx)
	if err != nil {
		return nil, err
	}
	home, err := newHome(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(home.dir, "data")
	if err := opts.initialize(ctx, home, bin, data); err != nil {
		return nil, errors.Join(err, home.remove())
	}
	return open(ctx, kind{
		name: "postgres",
		url: func(port int) string {
			return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		},
		command: func(port int) ([]string, error) {
			return []string{filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port)}, nil
		},
		probe:  func(ctx context.Context, url string) error { return probePostgres(ctx, url, data) },
		stop:   [2]syscall.Signal{Clean: syscall.SIGINT, Immediate: syscall.SIGQUIT},
		orphan: syscall.SIGQUIT, // frees its shared memory, which SIGKILL would not
	}, home)
}

// initialize makes the data directory. Text sorts by a language, as in production, and not by
// bytes, so that code that relies on byte order fails in tests.
func (o PostgresOptions) initialize(ctx context.Context, h home, bin, data string) error {
	err := h.run(ctx, filepath.Join(bin, "initdb"), "-D", data, "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync")
	if err != nil {
		return err
	}
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"max_connections":         "100",
		"shared_buffers":          "64MB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] %q%u@%d ",
	}
	if o.MaxConnections > 0 {
		settings["max_connections"] = strconv.Itoa(o.MaxConnections)
	}
	if o.Fast {
		settings["fsync"] = "off"
	}
	if o.Quiet {
		maps.Copy(settings, map[string]string{
			"autovacuum":         "off",
			"checkpoint_timeout": "1d",
			"max_wal_size":       "4GB",
			"wal_level":          "minimal", // otherwise running transactions are logged every 15 s
			"max_wal_senders":    "0",
		})
	}
	maps.Copy(settings, o.Settings)

	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString("\n# Set by the test harness\n" + text.String())
	return errors.Join(err, conf.Close())
}

// probePostgres reports whether the server with that data directory answers.
func probePostgres(ctx context.Context, url, data string) error {
	var answer string
	if err := ask(ctx, url, "select current_setting('data_directory')", &answer); err != nil {
		return err
	}
	if answer != data {
		return fmt.Errorf("another PostgreSQL answers, with its data in %s", answer)
	}
	return nil
}

// ask runs one query on a new connection, in a way that a pooler allows.
func ask(ctx context.Context, url, query string, answer *string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	err = conn.QueryRow(ctx, query).Scan(answer)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

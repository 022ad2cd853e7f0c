package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PgBouncerOptions configure a PgBouncer.
type PgBouncerOptions struct {
	// PoolSize is the number of server connections for each user and database,
	// 2 if zero.
	PoolSize int
}

// StartPgBouncer starts a PgBouncer in front of the PostgreSQL at target, in dir or in a temporary
// directory if dir is "". It pools by transaction and admits every role and database of the
// PostgreSQL without a password. Server.URL is target through the pooler. If target requires
// passwords, only target's own role works. The context bounds only the start. It returns a
// [*MissingError] when there is no PgBouncer.
func StartPgBouncer(ctx context.Context, dir, target string, opts PgBouncerOptions) (*Server, error) {
	to, err := pgx.ParseConfig(target)
	if err != nil {
		return nil, fmt.Errorf("target of PgBouncer: %w", err)
	}
	path, err := pgbouncer.path(ctx)
	if err != nil {
		return nil, err
	}
	v, err := version(ctx, path)
	if err != nil {
		return nil, err
	}
	home, err := newHome(dir)
	if err != nil {
		return nil, err
	}
	return open(ctx, kind{
		name: "pgbouncer",
		url: func(port int) string {
			u := url.URL{
				Scheme: "postgres", User: url.User(to.User), Path: "/" + to.Database,
				Host: fmt.Sprintf("127.0.0.1:%d", port), RawQuery: "sslmode=disable",
			}
			return u.String()
		},
		command: func(port int) ([]string, error) {
			return []string{path, "pgbouncer.ini"}, errors.Join(
				home.writeFile("users.txt", quote(to.User)+" "+quote(to.Password)+"\n"),
				home.writeFile("pgbouncer.ini", opts.config(to, port, v)))
		},
		probe: func(ctx context.Context, url string) error {
			return ask(ctx, url, "select 'up'", new(string))
		},
		// PgBouncer has nothing to save, and the meaning of its gentler signals depends on its
		// version.
		stop:   [2]syscall.Signal{Clean: syscall.SIGKILL, Immediate: syscall.SIGKILL},
		orphan: syscall.SIGKILL,
	}, home)
}

func (o PgBouncerOptions) config(to *pgx.ConnConfig, port int, version [2]int) string {
	pool := o.PoolSize
	if pool == 0 {
		pool = 2
	}
	lines := []string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%d", to.Host, to.Port),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", port),
		"unix_socket_dir =",
		"auth_type = trust",
		"auth_file = users.txt",
		// PgBouncer looks up roles that are not in the file in the database, as this role.
		"auth_user = " + to.User,
		"admin_users = " + to.User,
		"pool_mode = transaction",
		fmt.Sprintf("default_pool_size = %d", pool),
		"min_pool_size = 0",
		"reserve_pool_size = 0",
		"max_client_conn = 500",
		"ignore_startup_parameters = extra_float_digits",
		"server_tls_sslmode = prefer",
		"server_check_query =",   // no statements of its own between ours
		"server_login_retry = 1", // seconds; 15 would hide how fast we recover
	}
	if version[0] > 1 || version[1] >= 21 {
		// Later versions support prepared statements; poolers in the field do not.
		lines = append(lines, "max_prepared_statements = 0")
	}
	return strings.Join(lines, "\n") + "\n"
}

// quote quotes a value for PgBouncer's list of users.
func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

package servers

import (
	"context"
	"errors"
	"os"
)

// The variables that name the servers, and a directory for files that the processes of one test run
// share. What a variable names beforehand is used as it is; [Set.Env] sets them for the tests.
const (
	EnvPostgres  = "TEST_DATABASE_URL"
	EnvPgBouncer = "TEST_PGBOUNCER_URL"
	EnvRedis     = "TEST_REDIS_URL"
	EnvFiles     = "TEST_FILES_DIR"
)

// Options configure [Start]. The zero value is a durable PostgreSQL, a PgBouncer with two server
// connections, and a Redis; a missing program is an error.
type Options struct {
	Postgres  PostgresOptions
	PgBouncer PgBouncerOptions

	// AllowMissing makes Start continue without programs that are neither on this machine nor
	// installable. Set.Missing lists them.
	AllowMissing bool
}

// A Set is the running servers of the tests. When a TEST_* variable named an existing server, its
// Server is nil and its URL is set. When a server is missing, both are empty.
type Set struct {
	PostgresURL  string // as the superuser
	PgBouncerURL string // the same database through a transaction pooler
	RedisURL     string
	Files        string // the directory of shared files

	Postgres  *Server
	PgBouncer *Server
	Redis     *Server

	Missing []*MissingError // only with Options.AllowMissing

	files home // of Files, if it is ours
}

// Start starts, in temporary directories, every server that no TEST_* variable names. The context
// bounds only the start: the servers run until Close. After an error no server is left running. It
// returns a [*MissingError] when a program is missing.
func Start(ctx context.Context, opts Options) (*Set, error) {
	s := &Set{
		PostgresURL:  os.Getenv(EnvPostgres),
		PgBouncerURL: os.Getenv(EnvPgBouncer),
		RedisURL:     os.Getenv(EnvRedis),
		Files:        os.Getenv(EnvFiles),
	}
	if err := s.start(ctx, opts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Set) start(ctx context.Context, opts Options) error {
	// one starts one server and stores its URL, or records that it is missing.
	one := func(url *string, srv **Server, start func() (*Server, error)) error {
		if *url != "" {
			return nil
		}
		started, err := start()
		if missing := (*MissingError)(nil); opts.AllowMissing && errors.As(err, &missing) {
			s.Missing = append(s.Missing, missing)
			return nil
		}
		if err != nil {
			return err
		}
		*srv, *url = started, started.URL
		return nil
	}
	if err := one(&s.PostgresURL, &s.Postgres, func() (*Server, error) {
		return StartPostgres(ctx, "", opts.Postgres)
	}); err != nil {
		return err
	}
	if err := one(&s.PgBouncerURL, &s.PgBouncer, func() (*Server, error) {
		if s.PostgresURL == "" {
			return nil, pgbouncer.missing(errors.New("there is no PostgreSQL to put it in front of"))
		}
		return StartPgBouncer(ctx, "", s.PostgresURL, opts.PgBouncer)
	}); err != nil {
		return err
	}
	if err := one(&s.RedisURL, &s.Redis, func() (*Server, error) {
		return StartRedis(ctx, "")
	}); err != nil {
		return err
	}
	if s.Files != "" {
		return nil
	}
	var err error
	s.files, err = newFiles()
	s.Files = s.files.dir
	return err
}

// Env returns the TEST_* variables of the set, as NAME=value.
func (s *Set) Env() []string {
	var env []string
	for _, v := range [][2]string{
		{EnvPostgres, s.PostgresURL},
		{EnvPgBouncer, s.PgBouncerURL},
		{EnvRedis, s.RedisURL},
		{EnvFiles, s.Files},
	} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// Close stops the servers that Start started, and removes their files. It may be called again.
func (s *Set) Close() error {
	var errs []error
	for _, srv := range []*Server{s.Redis, s.PgBouncer, s.Postgres} {
		if srv != nil {
			errs = append(errs, srv.Close())
		}
	}
	return errors.Join(append(errs, s.files.remove())...)
}

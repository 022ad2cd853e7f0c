package servers

import (
	"context"
	"errors"
	"os"
)

// The variables that name the servers. Set beforehand they are used as they
// are; [Set.Env] sets them for the tests.
const (
	EnvPostgres  = "TEST_DATABASE_URL"
	EnvPgBouncer = "TEST_PGBOUNCER_URL"
	EnvRedis     = "TEST_REDIS_URL"
)

// Options says how [Start] sets up the servers. The zero value is a durable
// PostgreSQL, a PgBouncer with two server connections, and a Redis; a missing
// program is an error.
type Options struct {
	Postgres  PostgresOptions
	PgBouncer PgBouncerOptions

	// AllowMissing makes Start go on without what is neither on this machine
	// nor installable; Set.Missing lists it.
	AllowMissing bool
}

// A Set is what the tests need, running. A server is nil, its URL set, when
// its TEST_* variable named one that was there already; both are empty when it
// is missing.
type Set struct {
	PostgresURL  string // as the superuser
	PgBouncerURL string // the same database through a transaction pooler
	RedisURL     string

	Postgres  *Server
	PgBouncer *Server
	Redis     *Server

	Missing []*MissingError // only with Options.AllowMissing
}

// Start starts, in temporary directories, every server that no TEST_* variable
// names. The context bounds the starting only: the servers run until Close.
// After an error nothing is left running. The error is a [*MissingError] when a
// program cannot be had.
func Start(ctx context.Context, opts Options) (*Set, error) {
	s := &Set{
		PostgresURL:  os.Getenv(EnvPostgres),
		PgBouncerURL: os.Getenv(EnvPgBouncer),
		RedisURL:     os.Getenv(EnvRedis),
	}
	if err := s.start(ctx, opts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Set) start(ctx context.Context, opts Options) error {
	// one starts a part and keeps its URL, or notes that it is missing.
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
	return one(&s.RedisURL, &s.Redis, func() (*Server, error) {
		return StartRedis(ctx, "")
	})
}

// Env returns the TEST_* variables, as NAME=value, of all that is there.
func (s *Set) Env() []string {
	var env []string
	for _, v := range [][2]string{
		{EnvPostgres, s.PostgresURL},
		{EnvPgBouncer, s.PgBouncerURL},
		{EnvRedis, s.RedisURL},
	} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// Close stops the servers that Start started and removes their files. It may
// be called again.
func (s *Set) Close() error {
	var errs []error
	for _, srv := range []*Server{s.Redis, s.PgBouncer, s.Postgres} {
		if srv != nil {
			errs = append(errs, srv.Close())
		}
	}
	return errors.Join(errs...)
}

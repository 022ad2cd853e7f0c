package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// steady removes the environment variables that would change the meaning of a URL.
func steady(t *testing.T) {
	t.Helper()
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSSLMODE", "PGSSLROOTCERT", "PGSERVICE"} {
		t.Setenv(name, "")
	}
}

const password = "kept-to-ourselves"

func TestVerifiedURLLeavesLocalServersAlone(t *testing.T) {
	steady(t)
	for _, dsn := range []string{
		"postgres://u:" + password + "@127.0.0.1:5432/db",
		"postgres://u:" + password + "@127.0.0.1:5432/db?sslmode=disable",
		"postgresql://u@localhost/db?sslmode=disable",
		"postgres://u@[::1]:5432/db",
		"postgres://u@127.4.5.6/db",
		"postgres://u@/db?host=/var/run/postgresql",
		"postgres://u@127.0.0.1:5432,localhost:5433/db",
		"host=localhost user=u dbname=db sslmode=disable",
		"host=/var/run/postgresql user=u dbname=db",
	} {
		if got, err := postgres.VerifiedURL(dsn); err != nil || got != dsn {
			t.Errorf("%s became %s, %v", dsn, got, err)
		}
	}
}

// TestVerifiedURLVerifiesAllOthers: whatever the form of the string, every remote server is
// verified, and nothing else in the string changes.
func TestVerifiedURLVerifiesAllOthers(t *testing.T) {
	steady(t)
	for _, dsn := range []string{
		"postgres://u:" + password + "@db.example.com/db",
		"postgres://u:" + password + "@db.example.com/db?sslmode=require",
		"postgres://u:" + password + "@db.example.com/db?sslmode=prefer",
		"postgres://u:" + password + "@db.example.com/db?sslmode=allow",
		"postgres://u:" + password + "@db.example.com/db?sslmode=verify-ca",
		"postgres://u:" + password + "@db.example.com/db?sslmode=verify-full",
		"postgres://u:" + password + "@db.example.com/db?ssl=true",
		"postgres://u:" + password + "@db.example.com/db?application_name=x&connect_timeout=3",
		"postgres://u:" + password + "@db.example.com/db?",
		"postgres://u:" + password + "@db.example.com",
		"postgres://u:" + password + "@10.0.0.7:5432/db",
		"postgres://u:" + password + "@localhost.example.com/db",
		"postgres://u:" + password + "@db.example.com:5432,db2.example.com:5433/db",
		"postgres://u:" + password + "@127.0.0.1,db.example.com/db",
		"postgres://u:p#" + password + "@db.example.com/db",
		"postgres://u:p?" + password + "@db.example.com/db?application_name=x",
		"host=db.example.com user=u password=" + password + " dbname=db",
		"host=db.example.com user=u password=" + password + " dbname=db sslmode=require",
		"host=db.example.com user=u password='" + password + "' dbname='db' ",
		"user=u password=" + password + " dbname=db host=127.0.0.1,db.example.com",
		"host=db.example.com user=u password=https://" + password + " dbname=db",
	} {
		got, err := postgres.VerifiedURL(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		is, err := pgconn.ParseConfig(got)
		if err != nil {
			t.Errorf("%s became %s: %v", dsn, got, err)
			continue
		}
		was, err := pgconn.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if is.Host != was.Host || is.Port != was.Port || is.User != was.User || is.Password != was.Password || is.Database != was.Database {
			t.Errorf("%s became %s", dsn, got)
		}
		for _, h := range append(is.Fallbacks, &pgconn.FallbackConfig{Host: is.Host, TLSConfig: is.TLSConfig}) {
			if strings.HasSuffix(h.Host, "example.com") && (h.TLSConfig == nil || h.TLSConfig.InsecureSkipVerify || h.TLSConfig.ServerName != h.Host) {
				t.Errorf("%s became %s: %s is not verified", dsn, got, h.Host)
			}
		}
	}
}

func TestVerifiedURLRefuses(t *testing.T) {
	steady(t)
	const off, none = "switches TLS off for host db.example.com", "not a Postgres URL"
	for _, c := range []struct{ dsn, want string }{
		{"postgres://u:" + password + "@db.example.com/db?sslmode=disable", off},
		{"postgres://u:" + password + "@127.0.0.1,db.example.com/db?sslmode=disable", off},
		{"host=db.example.com user=u password=" + password + " sslmode=disable", off},
		{"host=db.example.com user=u password=" + password + " sslmode = 'disable'", off},
		{"", none},
		{"  ", none},
		{"postgres", none},
		{"mysql://u:" + password + "@db.example.com/db", none},
		{"postgres://u:" + password + "@db.example.com:port/db", none},
		{"postgres://u:" + password + "@db.example.com:1:2/db", none},
		{"postgres://u:%zz" + password + "@db.example.com/db", none},
		{"postgres://u:" + password + "@[::1/db", none},
		{"postgres://u:" + password + "@db.example.com/db?sslmode=maybe", none},
		{"host=db.example.com password='" + password, none},
		{"host=db.example.com password=" + password + " port=none", none},
	} {
		for name, fn := range map[string]func() error{
			"VerifiedURL": func() error { _, err := postgres.VerifiedURL(c.dsn); return err },
			"Open":        func() error { _, err := postgres.Open(postgres.Config{URL: c.dsn}); return err },
		} {
			err := fn()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s(%s): %v, want %q", name, c.dsn, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("%s tells the password: %v", name, err)
			}
		}
	}
}

// TestVerifiedURLIgnoresTheEnvironment: TLS settings in the environment do not weaken a URL.
func TestVerifiedURLIgnoresTheEnvironment(t *testing.T) {
	steady(t)
	t.Setenv("PGSSLMODE", "prefer")
	got, err := postgres.VerifiedURL("postgres://u@db.example.com/db")
	if err != nil {
		t.Fatal(err)
	}
	is, err := pgconn.ParseConfig(got)
	if err != nil || is.TLSConfig == nil || is.TLSConfig.InsecureSkipVerify || len(is.Fallbacks) > 0 {
		t.Errorf("became %s, %v", got, err)
	}
}

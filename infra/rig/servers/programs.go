package servers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// MissingError means that a program is not on this machine and was not installed. It says what to
// do.
type MissingError struct {
	Program  string // such as "PgBouncer"
	Variable string // the TEST_* variable that makes it unnecessary, if any
	Apt      string // Debian's package
	Brew     string // Homebrew's package
	Err      error  // why it is missing
}

func (e *MissingError) Error() string {
	said := fmt.Sprintf(`%s is missing: %v
install it   Debian, Ubuntu: sudo apt-get install %s
             macOS:          brew install %s`, e.Program, e.Err, e.Apt, e.Brew)
	if e.Variable != "" {
		said += fmt.Sprintf("\nor set       %s to the URL of a running one, for tests only", e.Variable)
	}
	return said
}

func (e *MissingError) Unwrap() error { return e.Err }

// program is a program to find or install.
type program struct {
	name, variable, apt, brew string

	find func(context.Context) (path string, err error)
}

var (
	postgres  = program{"PostgreSQL 15 or newer", EnvPostgres, "postgresql", "postgresql@17", findPostgres}
	pgbouncer = program{"PgBouncer", EnvPgBouncer, "pgbouncer", "pgbouncer", findAny("pgbouncer")}
	redis     = program{"Redis", EnvRedis, "redis-server", "redis", findAny("redis-server", "valkey-server")}
)

func (p program) missing(err error) *MissingError {
	return &MissingError{Program: p.name, Variable: p.variable, Apt: p.apt, Brew: p.brew, Err: err}
}

// path finds the program. It installs the program first if necessary and allowed.
func (p program) path(ctx context.Context) (string, error) {
	path, err := p.find(ctx)
	if err == nil {
		return path, nil
	}
	if canInstall() {
		if err := install(ctx, p); err != nil {
			return "", p.missing(err)
		}
		path, err = p.find(ctx)
	}
	if err != nil {
		return "", p.missing(err)
	}
	return path, nil
}

// findAny finds the first of the names on PATH, or in the directories where packages install
// servers and that are not on the PATH of ordinary users.
func findAny(names ...string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		for _, name := range names {
			if path, err := exec.LookPath(name); err == nil {
				return filepath.Abs(path)
			}
			for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"} {
				if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
					return path, nil
				}
			}
		}
		return "", fmt.Errorf("no %s found", names[0])
	}
}

// findPostgres returns the directory of the first PostgreSQL that is new enough: on PATH, or else
// in the packages' directories, newest first.
func findPostgres(ctx context.Context) (string, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern) // fails only on a bad pattern
		slices.Reverse(found)
		dirs = append(dirs, found...)
	}
	reason := errors.New("no postgres with initdb beside it found")
	for _, dir := range dirs {
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		v, err := version(ctx, filepath.Join(dir, "postgres"))
		switch {
		case err != nil:
			reason = err
		case v[0] < 15:
			reason = fmt.Errorf("version %d found in %s", v[0], dir)
		default:
			return dir, nil
		}
	}
	return "", reason
}

var versionText = regexp.MustCompile(`(\d+)\.(\d+)|(\d+)(?:devel|beta|rc)`)

// version runs a program to get its major and minor version.
func version(ctx context.Context, path string) (v [2]int, err error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return v, fmt.Errorf("%s --version: %w", path, err)
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return v, fmt.Errorf("%s --version: no version in %q", path, out)
	}
	v[0], _ = strconv.Atoi(string(m[1]) + string(m[3]))
	v[1], _ = strconv.Atoi(string(m[2]))
	return v, nil
}

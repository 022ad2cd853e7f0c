package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// The exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitDatabase = 3
)

// exits describes the exit codes for the help.
var exits = []struct {
	code    int
	meaning string
}{
	{exitDone, "done; a beat that was skipped, had nothing to do, or left work to the next one, is done too"},
	{exitFailed, "failed, or the call, the delivery or the check that it made did"},
	{exitUsage, "the command line, a field of what it sends, or the configuration is wrong"},
	{exitDatabase, "the database is unreachable or damaged, or its schema is not for this build"},
}

// A usageError says what is wrong with the command line.
type usageError struct {
	problem string
	text    string // the usage
}

func (e *usageError) Error() string { return e.problem }

// misused returns a usageError that shows the verb's own usage.
func misused(format string, args ...any) error {
	return &usageError{problem: fmt.Sprintf(format, args...)}
}

// An exitError ends the command with the given exit code. If it has no error, nothing more is
// printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

// hinted is an error with the next step for the user.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// code prints an error for the person or the program, and returns the exit code.
func (c *console) code(err error) int {
	if err == nil {
		return exitDone
	}
	code := codeOf(err)
	if exit, ok := errors.AsType[*exitError](err); ok && exit.err == nil {
		return code
	}
	usage, _ := errors.AsType[*usageError](err)
	wrong, _ := errors.AsType[*problem.ConfigError](err)
	switch {
	case c.json:
		// strings always encode, and a failing stderr cannot be reported
		_ = json.NewEncoder(c.err).Encode(struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
			Code  int    `json:"exitCode"`
		}{c.asCalled(err.Error()), c.asCalled(hintFor(err)), code})
	case usage != nil:
		if usage.problem != "" {
			fmt.Fprintf(c.err, "lanekeeper: %s\n\n", c.asCalled(usage.problem))
		}
		fmt.Fprint(c.err, c.asCalled(usage.text))
	case wrong != nil:
		fmt.Fprintln(c.err, "lanekeeper: the configuration is wrong:")
		for _, p := range wrong.Problems {
			fmt.Fprintf(c.err, "  %s\n", c.asCalled(p.String()))
		}
	default:
		fmt.Fprintf(c.err, "lanekeeper: %s\n", c.asCalled(err.Error()))
		if hint := hintFor(err); hint != "" {
			fmt.Fprintf(c.err, "\n%s\n", c.asCalled(hint))
		}
	}
	return code
}

func codeOf(err error) int {
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*problem.ConfigError](err); ok {
		return exitUsage
	}
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.Code == "invalid" && len(refused.Errors) > 0 {
		return exitUsage
	}
	if _, ok := errors.AsType[*db.SchemaError](err); ok {
		return exitDatabase
	}
	if _, ok := errors.AsType[*db.NewerSchemaError](err); ok {
		return exitDatabase
	}
	for _, of := range []error{db.ErrUnavailable, db.ErrCorrupt, db.ErrUnsafeRole, errDatabase} {
		if errors.Is(err, of) {
			return exitDatabase
		}
	}
	return exitFailed
}

// errDatabase marks failures to open a database that have no type of their own.
var errDatabase = errors.New("the database can't be used")

// hintFor returns the next step after an error, if the error's text does not say it.
func hintFor(err error) string {
	if h, ok := errors.AsType[*hinted](err); ok {
		return h.hint
	}
	switch {
	case errors.Is(err, db.ErrFull):
		return "Make room on the disk that holds the database: what was stored before is still there."
	case errors.Is(err, db.ErrUnsafeRole):
		return "The rows of one workspace would be open to another. As a superuser run:\n" +
			"  ALTER ROLE lanekeeper_app NOSUPERUSER NOBYPASSRLS"
	case errors.Is(err, fs.ErrPermission):
		return "Give this user the right to it, or point SQLITE_PATH to a place where it may write."
	}
	return ""
}

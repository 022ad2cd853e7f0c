// Package livetest has the conformance suite of the contract in package live: the cases that every
// backend passes. A database passes all of them, a Redis those of its part.
package livetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// World is a backend and what its cases need.
type World struct {
	live.Ephemeral
	Durable live.Durable // nil: the backend has none
	// Workspaces are two that belong to the test alone.
	Workspace, Other db.Workspace
	// Advance lets time pass for the backend.
	Advance func(t testing.TB, d time.Duration)
	// Attempt begins an attempt at a task, which a result needs.
	Attempt func(t testing.TB) live.Attempt
	// Force puts a task of the workspace in a state that agents and the coordinator bring about.
	Force func(t testing.TB, task string, s State)
	// AnyAttempt says that results of attempts that nobody began are stored, too.
	AnyAttempt bool
}

// A Case is one case of the suite.
type Case struct {
	Name string
	Do   func(t *testing.T, w *World)
}

// Run runs cases, one after the other, and returns how many there were.
func Run(t *testing.T, w *World, cases []Case) int {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}
		seen[c.Name] = true
		t.Run(c.Name, func(t *testing.T) { c.Do(t, w) })
	}
	return len(cases)
}

// invalid fails unless err names the field.
func invalid(t testing.TB, err error, field string) {
	t.Helper()
	bad, ok := errors.AsType[*problem.InvalidError](err)
	if !ok {
		t.Fatalf("%v, want one that names %s", err, field)
	}
	for _, f := range bad.Fields {
		if f.Field == field {
			return
		}
	}
	t.Errorf("%v does not name %s", err, field)
}

func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

// differ returns both values as JSON, or "" if they are the same.
func differ(want, got any) string {
	a, err := json.MarshalIndent(want, "", " ")
	b, err2 := json.MarshalIndent(got, "", " ")
	if err == nil && err2 == nil && bytes.Equal(a, b) {
		return ""
	}
	return fmt.Sprintf("want %s, got %s (%v)", a, b, errors.Join(err, err2))
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newID() string { return uuid.NewString() }

// at calls fn n times at once and waits.
func at(ctx context.Context, n int, fn func(ctx context.Context, i int)) {
	done := make(chan struct{})
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			fn(ctx, i)
		}()
	}
	for range n {
		<-done
	}
}

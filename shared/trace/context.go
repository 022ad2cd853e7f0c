package trace

import "context"

// carried is what a context says about the work done under it. It is one value, so that a log
// record costs one lookup.
type carried struct {
	id        ID
	execution string
	workspace string
}

type contextKey struct{}

func carriedBy(ctx context.Context) carried {
	c, _ := ctx.Value(contextKey{}).(carried)
	return c
}

func (c carried) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// With returns a context whose work belongs to the trace id.
func With(ctx context.Context, id ID) context.Context {
	c := carriedBy(ctx)
	c.id = id
	return c.in(ctx)
}

// From returns the trace that ctx belongs to, and whether there is one.
func From(ctx context.Context) (ID, bool) {
	id := carriedBy(ctx).id
	return id, id != ""
}

// WithExecution returns a context whose work is done by the execution id.
// A child execution replaces its parent here and keeps its trace.
func WithExecution(ctx context.Context, id string) context.Context {
	c := carriedBy(ctx)
	c.execution = id
	return c.in(ctx)
}

// Execution returns the id of the execution that ctx works for, or "".
func Execution(ctx context.Context) string { return carriedBy(ctx).execution }

// WithWorkspace returns a context whose work is done in the workspace id. The id is for logs and
// headers only; it grants no access.
func WithWorkspace(ctx context.Context, id string) context.Context {
	c := carriedBy(ctx)
	c.workspace = id
	return c.in(ctx)
}

// Workspace returns the id of the workspace that ctx works in, or "".
func Workspace(ctx context.Context) string { return carriedBy(ctx).workspace }

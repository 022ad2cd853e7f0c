package rig

import (
	"context"
	"slices"
	"sync"
)

// journal is a list that only grows and that one can wait on.
type journal[T any] struct {
	mu    sync.Mutex
	items []T
	grown chan struct{} // closed and replaced whenever an item is added
}

func newJournal[T any]() *journal[T] { return &journal[T]{grown: make(chan struct{})} }

// add appends item and wakes all who wait.
func (j *journal[T]) add(item T) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.items = append(j.items, item)
	close(j.grown)
	j.grown = make(chan struct{})
}

// all returns a copy of the list.
func (j *journal[T]) all() []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.items)
}

// wait returns the index of the first item at or after from that matches; if
// there is none it waits for one, or for the end of ctx.
func (j *journal[T]) wait(ctx context.Context, from int, match func(T) bool) (int, T, error) {
	for {
		j.mu.Lock()
		items, grown := j.items, j.grown
		j.mu.Unlock()
		for ; from < len(items); from++ {
			if match(items[from]) {
				return from, items[from], nil
			}
		}
		select {
		case <-grown:
		case <-ctx.Done():
			var none T
			return 0, none, ctx.Err()
		}
	}
}

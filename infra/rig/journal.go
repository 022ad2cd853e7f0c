package rig

import (
	"context"
	"slices"
	"sync"
)

// journal is an append-only list whose readers can wait for items.
type journal[T any] struct {
	mu    sync.Mutex
	items []T
	grown chan struct{} // closed and replaced on every new item
}

func newJournal[T any]() *journal[T] { return &journal[T]{grown: make(chan struct{})} }

// add appends an item and wakes all waiters.
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

// wait returns the first item at or after index from that matches, and its index. It blocks until
// there is one, or until ctx ends.
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

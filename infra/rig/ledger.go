package rig

import (
	"context"
	"fmt"
)

// Effect is something that was done to the world and cannot be taken back.
type Effect struct {
	Name string // what was done
	Key  string // what it was done for: the key alone says what may happen once
	PID  int    // the process that did it; zero if a fake recorded it
}

// Ledger counts effects. It stands outside the product: the product's
// processes report to it by package shared/fault, and the fakes that receive
// effects may record them by Record.
type Ledger struct{ effects *journal[Effect] }

func newLedger() *Ledger { return &Ledger{newJournal[Effect]()} }

// Record adds an effect that a fake has seen.
func (l *Ledger) Record(name, key string) { l.effects.add(Effect{Name: name, Key: key}) }

// Count returns how many effects the key has had.
func (l *Ledger) Count(key string) int {
	n := 0
	for _, e := range l.effects.all() {
		if e.Key == key {
			n++
		}
	}
	return n
}

// All returns every effect in the order it was recorded.
func (l *Ledger) All() []Effect { return l.effects.all() }

// Duplicates returns the keys that have had more than one effect, with their
// counts.
func (l *Ledger) Duplicates() map[string]int {
	counts := make(map[string]int)
	for _, e := range l.effects.all() {
		counts[e.Key]++
	}
	for key, n := range counts {
		if n == 1 {
			delete(counts, key)
		}
	}
	return counts
}

// WaitFor waits until the key has had an effect, and returns the first.
func (l *Ledger) WaitFor(ctx context.Context, key string) (Effect, error) {
	_, e, err := l.effects.wait(ctx, 0, func(e Effect) bool { return e.Key == key })
	if err != nil {
		return Effect{}, fmt.Errorf("rig: wait for an effect of %s: %w", key, err)
	}
	return e, nil
}

package rig

import (
	"context"
	"fmt"
)

// Effect is an irreversible change outside of the product.
type Effect struct {
	Name string // what was done
	Key  string // the idempotency key; one effect per key is correct
	PID  int    // the process that did it; zero if a fake recorded it
}

// Ledger counts effects. It is outside of the product: the product's processes report to it through
// package shared/fault, and fakes that receive effects call Record.
type Ledger struct{ effects *journal[Effect] }

func newLedger() *Ledger { return &Ledger{newJournal[Effect]()} }

// Record adds an effect that a fake has received.
func (l *Ledger) Record(name, key string) { l.effects.add(Effect{Name: name, Key: key}) }

// Count returns the number of effects under the key.
func (l *Ledger) Count(key string) int {
	n := 0
	for _, e := range l.effects.all() {
		if e.Key == key {
			n++
		}
	}
	return n
}

// All returns every effect in the order of recording.
func (l *Ledger) All() []Effect { return l.effects.all() }

// Duplicates returns the keys with more than one effect, and their counts.
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

// WaitFor waits for an effect under the key and returns the first one.
func (l *Ledger) WaitFor(ctx context.Context, key string) (Effect, error) {
	_, e, err := l.effects.wait(ctx, 0, func(e Effect) bool { return e.Key == key })
	if err != nil {
		return Effect{}, fmt.Errorf("rig: wait for an effect of %s: %w", key, err)
	}
	return e, nil
}

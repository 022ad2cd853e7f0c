package queue_test

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

// BenchmarkDo runs a job that is alone in its queue.
func BenchmarkDo(b *testing.B) {
	q := queue.New(queue.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if err := do(b.Context(), q, in("main"), fine); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNested runs a job in a second queue, inside a job of the first queue.
func BenchmarkNested(b *testing.B) {
	q := queue.New(queue.Options{})
	b.ReportAllocs()
	err := do(b.Context(), q, in("session:a"), func(ctx context.Context) error {
		for b.Loop() {
			if err := do(ctx, q, in("subagent"), fine); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkContended runs jobs in a queue in which others always wait.
func BenchmarkContended(b *testing.B) {
	q := queue.New(queue.Options{})
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := do(b.Context(), q, in("main"), fine); err != nil {
				b.Error(err)
			}
		}
	})
}

package lane_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// bench runs a benchmark on Postgres and on SQLite and reports the round trips of one operation.
func bench(b *testing.B, setUp func(b *testing.B, w world) (op func() error)) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnSQLite} {
		b.Run(engine, func(b *testing.B) {
			w := newWorld(b, dbtest.New(b, engine))
			op := setUp(b, w)
			before := w.DB.Stats()
			b.ReportAllocs()
			for b.Loop() {
				if err := op(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(w.DB.Stats().Sub(before).RoundTrips)/float64(b.N), "roundtrips/op")
		})
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	bench(b, func(b *testing.B, w world) func() error {
		ctx, r := b.Context(), w.request("bench")
		return func() error {
			h, err := w.s.Acquire(ctx, r)
			if err != nil {
				return err
			}
			return w.s.Release(ctx, h)
		}
	})
}

func BenchmarkRefusal(b *testing.B) {
	bench(b, func(b *testing.B, w world) func() error {
		ctx, r := b.Context(), w.request("bench")
		acquire(b, w.s, r)
		return func() error {
			_, err := w.s.Acquire(ctx, r)
			if _, busy := errors.AsType[*lane.BusyError](err); !busy {
				return errors.Join(errors.New("not refused"), err)
			}
			return nil
		}
	})
}

func BenchmarkProvenWrite(b *testing.B) {
	bench(b, func(b *testing.B, w world) func() error {
		ctx := b.Context()
		h := acquire(b, w.s, w.request("bench"))
		return func() error {
			return w.s.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error {
				w.put(tx, h, "value")
				return nil
			})
		}
	})
}

// BenchmarkPlainWrite is the baseline for BenchmarkProvenWrite.
func BenchmarkPlainWrite(b *testing.B) {
	bench(b, func(b *testing.B, w world) func() error {
		ctx := b.Context()
		return func() error {
			var batch db.Batch
			batch.Exec(w.q.Put, register, 1, "value")
			return w.DB.Do(ctx, w.Workspace, &batch)
		}
	})
}

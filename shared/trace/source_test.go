package trace

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

// race_test.go sets raceEnabled. The race detector makes everything ten times slower.
var raceEnabled bool

func at(millis int64) func() time.Time {
	return func() time.Time { return time.UnixMilli(millis) }
}

// endless is a reader that repeats one byte.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestNewTellsSurfaceAndTime(t *testing.T) {
	source := NewSource(at(1763721000123), rand.Reader)
	for _, surface := range surfaces {
		_, info, err := Parse(string(source.New(surface)))
		if err != nil {
			t.Fatal(err)
		}
		if info.Surface != surface || info.Time.UnixMilli() != 1763721000123 || info.Time.Location() != time.UTC {
			t.Errorf("%s: got %+v", surface, info)
		}
	}
}

// TestIDsRise: ids rise, parse, and are never older than the clock, whatever the clock and the
// randomness do.
func TestIDsRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few distinct instants, so that milliseconds repeat and step back.
		instants := rapid.OneOf(
			rapid.Int64Range(1763721000000, 1763721000005),
			rapid.Int64Range(-5, 5),
			rapid.Int64Range(maxMillis-1_000_000, maxMillis-500_000),
		)
		clock := rapid.SliceOfN(instants, 1, 60).Draw(t, "clock")
		random := rapid.OneOf(
			rapid.Just[io.Reader](endless(0)),
			rapid.Just[io.Reader](endless(0xff)),
			rapid.Just[io.Reader](endless(0x7f)),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 500, 500), func(b []byte) io.Reader { return bytes.NewReader(b) }),
		).Draw(t, "random")

		i := 0
		source := NewSource(func() time.Time { return time.UnixMilli(clock[i]) }, random)
		var last ID
		for ; i < len(clock); i++ {
			id := source.New(Chat)
			_, info, err := Parse(string(id))
			if err != nil {
				t.Fatal(err)
			}
			if id <= last {
				t.Fatalf("%q came after %q", id, last)
			}
			if info.Time.UnixMilli() < clock[i] {
				t.Fatalf("%q is older than the clock, %d", id, clock[i])
			}
			last = id
		}
	})
}

func TestCarryMovesToTheNextMillisecond(t *testing.T) {
	source := NewSource(at(1000), endless(0xff)) // the first random part is the highest there is
	first, second := source.New(Worker), source.New(Worker)
	if first != "wk_0000000rs_zzzzzzzzzz" || second != "wk_0000000rt_zzzzzzzzzz" {
		t.Errorf("got %q, %q", first, second)
	}
}

func TestBrokenRandomnessIsReplaced(t *testing.T) {
	source := NewSource(at(1000), iotest.ErrReader(errors.New("no entropy")))
	other := NewSource(at(1000), bytes.NewReader([]byte{1, 2, 3})) // ends too soon
	if a, b := source.New(Operate), other.New(Operate); a == b {
		t.Errorf("both are %q", a)
	}
}

func TestTimeOutsideTheRangeStaysParseable(t *testing.T) {
	for _, now := range []time.Time{{}, time.UnixMilli(maxMillis + 1), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		source := NewSource(func() time.Time { return now }, endless(0xff))
		for range 3 {
			if _, _, err := Parse(string(source.New(Heartbeat))); err != nil {
				t.Errorf("%v: %v", now, err)
			}
		}
	}
}

// TestTenMillionIDs runs eight processes with two goroutines each. No id occurs twice, and every
// goroutine sees its own ids rise.
func TestTenMillionIDs(t *testing.T) {
	const processes, goroutines = 8, 2
	total := 10_000_000
	if testing.Short() || raceEnabled {
		total /= 50
	}
	each := total / processes / goroutines

	type number struct{ millis, random uint64 }
	compare := func(a, b number) int {
		return cmp.Or(cmp.Compare(a.millis, b.millis), cmp.Compare(a.random, b.random))
	}
	all := make([]number, processes*goroutines*each)
	var wg sync.WaitGroup
	for p := range processes {
		source := NewSource(time.Now, rand.Reader)
		for g := range goroutines {
			part := all[(p*goroutines+g)*each:][:each]
			wg.Go(func() {
				var last ID
				for i := range part {
					id := source.New(Coordinator)
					if id <= last {
						t.Errorf("%q came after %q", id, last)
						return
					}
					last = id
					part[i].millis, _ = parse36(string(id[timeAt : timeAt+timeWidth]))
					part[i].random, _ = parse36(string(id[randomAt:]))
				}
			})
		}
	}
	wg.Wait()

	slices.SortFunc(all, compare)
	if distinct := len(slices.Compact(all)); distinct != total {
		t.Errorf("%d distinct ids among %d", distinct, total)
	}
}

func BenchmarkNew(b *testing.B) {
	source := NewSource(time.Now, rand.Reader)
	b.ReportAllocs()
	for b.Loop() {
		source.New(Heartbeat)
	}
}

package queue

import (
	"cmp"
	"slices"
	"time"
)

// Bounds are the upper ends of the buckets of waits; the last bucket has none.
var bounds = [...]time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute,
}

// Bucket counts the jobs that waited no longer than Until and longer than those
// before; the last has no end.
type Bucket struct {
	Until time.Duration // 0: no end
	Jobs  int64
}

// Stats are the counts of a lane, or of all lanes that were not named in the
// options, whose name is empty.
type Stats struct {
	Lane      string
	Depth     int // waiting now
	Active    int
	Completed int64 // without an error
	Failed    int64
	Waited    []Bucket
	Service   time.Duration // how long jobs took lately
}

// totals outlive the lanes that they count for.
type totals struct {
	completed, failed int64
	waited            [len(bounds) + 1]int64
	service           time.Duration
}

// total is that of a family of lanes.
func (q *Queues) total(family string) *totals {
	t := q.totals[family]
	if t == nil {
		t = &totals{}
		q.totals[family] = t
	}
	return t
}

func (t *totals) count(waited, ran time.Duration, err error) {
	if err != nil {
		t.failed++
	} else {
		t.completed++
	}
	i, _ := slices.BinarySearch(bounds[:], waited)
	t.waited[i]++
	if t.completed+t.failed == 1 {
		t.service = ran
		return
	}
	t.service += (ran - t.service) / 8
}

// Stats counts what is and was in the lanes.
func (q *Queues) Stats() []Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[string]*Stats{}
	for family, t := range q.totals {
		s := &Stats{Lane: family, Completed: t.completed, Failed: t.failed, Service: t.service}
		for i, n := range t.waited {
			b := Bucket{Jobs: n}
			if i < len(bounds) {
				b.Until = bounds[i]
			}
			s.Waited = append(s.Waited, b)
		}
		all[family] = s
	}
	for name, l := range q.lanes {
		family, _ := q.limits(name)
		all[family].Depth += l.depth()
		all[family].Active += len(l.active)
	}
	out := make([]Stats, 0, len(all))
	for _, s := range all {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Stats) int { return cmp.Compare(a.Lane, b.Lane) })
	return out
}

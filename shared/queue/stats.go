package queue

import (
	"cmp"
	"slices"
	"time"
)

// bounds are the upper ends of the buckets of waits; the last bucket has none.
var bounds = [...]time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute,
}

// Bucket counts the jobs that waited no longer than Until for their turn, and longer
// than those of the bucket before.
type Bucket struct {
	Until time.Duration // 0: no end
	Jobs  int64
}

// Stats are the counts of the lanes that share a name in the options, or, without a
// name, of all others.
type Stats struct {
	Queue     string
	Depth     int           // jobs that wait
	Oldest    time.Duration // the longest of these waits until now
	Active    int
	Completed int64 // without an error
	Failed    int64
	Refused   int64         // the lane was full, or it was a circle
	GaveUp    int64         // let in, and gone before their turn
	Waited    []Bucket      // of those completed and failed
	Service   time.Duration // how long jobs took lately
}

// Done describes a job that has left its lane.
type Done struct {
	Queue   string
	Class   Class
	Started bool // else it gave up, or was sent away by Close
	Waited  time.Duration
	Ran     time.Duration
	Err     error
}

// family are lanes that share limits and counts, which outlive the lanes.
type family struct {
	name   string
	limits Limits

	// Under the queues' lock:
	completed, failed, refused, gaveUp int64
	waited                             [len(bounds) + 1]int64
	service                            time.Duration
}

// count counts a job that leaves the lane.
func (l *lane) count(d Done) {
	f := l.family
	switch {
	case !d.Started:
		f.gaveUp++
		return
	case d.Err != nil:
		f.failed++
	default:
		f.completed++
	}
	i, _ := slices.BinarySearch(bounds[:], d.Waited)
	f.waited[i]++
	smooth(&f.service, d.Ran)
	smooth(&l.service, d.Ran)
}

// smooth weighs the last eight or so most.
func smooth(mean *time.Duration, d time.Duration) {
	if *mean == 0 {
		*mean = d
		return
	}
	*mean += (d - *mean) / 8
}

// A caller of a full lane is sent away for so long at least and at most.
const minRetryAfter, maxRetryAfter = time.Second, 5 * time.Minute

// retryAfter is how long the jobs that wait in the lane will take, and one in it,
// going by how long jobs took lately in it, or else in its family, or else by how
// long the one at work has taken until now.
func (l *lane) retryAfter(now time.Time) time.Duration {
	service := cmp.Or(l.service, l.family.service, now.Sub(l.active[0].turned))
	rounds := float64(l.depth()+1) / float64(l.family.limits.MaxConcurrent)
	return min(max(time.Duration(min(rounds*float64(service), float64(maxRetryAfter))), minRetryAfter), maxRetryAfter)
}

// Stats counts what is in the lanes now, and what was in them since they were made.
func (q *Queues) Stats() []Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	all := make(map[*family]*Stats, len(q.families))
	for name, f := range q.families {
		s := &Stats{Queue: name, Completed: f.completed, Failed: f.failed, Refused: f.refused, GaveUp: f.gaveUp, Service: f.service}
		for i, n := range f.waited {
			b := Bucket{Jobs: n}
			if i < len(bounds) {
				b.Until = bounds[i]
			}
			s.Waited = append(s.Waited, b)
		}
		all[f] = s
	}
	for _, l := range q.lanes {
		s := all[l.family]
		s.Depth += l.depth()
		s.Active += len(l.active)
		for class := range l.waiting {
			if first := l.waiting[class].Front(); first != nil {
				s.Oldest = max(s.Oldest, now.Sub(first.Value.(*ticket).came))
			}
		}
	}
	stats := make([]Stats, 0, len(all))
	for _, s := range all {
		stats = append(stats, *s)
	}
	slices.SortFunc(stats, func(a, b Stats) int { return cmp.Compare(a.Queue, b.Queue) })
	return stats
}

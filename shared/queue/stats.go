package queue

import (
	"cmp"
	"slices"
	"time"
)

// bounds are the upper bounds of the wait buckets; the last bucket has none.
var bounds = [...]time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute,
}

// Bucket counts the jobs that waited at most Until for their turn, and longer than the bound of the
// bucket before.
type Bucket struct {
	Until time.Duration // 0: no upper bound
	Jobs  int64
}

// Stats are the counts of the queues that share a name in the options. The Stats without a name are
// those of all other queues.
type Stats struct {
	Queue     string
	Depth     int           // jobs that wait now
	Oldest    time.Duration // the longest wait so far among them
	Active    int
	Completed int64 // jobs without an error
	Failed    int64
	Refused   int64         // jobs refused because the queue was full or for a cycle
	GaveUp    int64         // jobs that were admitted and left before their turn
	Waited    []Bucket      // waits of the completed and failed jobs
	Service   time.Duration // how long recent jobs took
}

// Done describes a job that has left its queue.
type Done struct {
	Queue   string
	Class   Class
	Started bool // false: the caller left before the turn, or Close refused it
	Waited  time.Duration
	Ran     time.Duration
	Err     error
}

// family is a set of queues that share limits and counts. It outlives the queues.
type family struct {
	name   string
	limits Limits

	// Guarded by the queues' lock:
	completed, failed, refused, gaveUp int64
	waited                             [len(bounds) + 1]int64
	service                            time.Duration
}

// count counts a job that leaves the queue.
func (l *queue) count(d Done) {
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

// smooth updates a moving average of about the last eight values.
func smooth(mean *time.Duration, d time.Duration) {
	if *mean == 0 {
		*mean = d
		return
	}
	*mean += (d - *mean) / 8
}

// The shortest and the longest time after which a caller of a full queue may try again.
const minRetryAfter, maxRetryAfter = time.Second, 5 * time.Minute

// retryAfter estimates how long the waiting jobs and one more will take. It uses how long recent
// jobs of the queue took, else of its family, else how long the current job has run so far.
func (l *queue) retryAfter(now time.Time) time.Duration {
	service := cmp.Or(l.service, l.family.service, now.Sub(l.active[0].turned))
	rounds := float64(l.depth()+1) / float64(l.family.limits.MaxConcurrent)
	return min(max(time.Duration(min(rounds*float64(service), float64(maxRetryAfter))), minRetryAfter), maxRetryAfter)
}

// Stats returns the jobs that are in the queues now, and the counts since the queues were made.
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
	for _, l := range q.queues {
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

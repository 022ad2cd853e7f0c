package skill

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Summary is how the calls of one skill ended over some days.
type Summary struct {
	Calls, Failed  int
	Days           []DayOfCalls // the oldest first, today the last
	P50, P95       *time.Duration
	Streak         int // consecutive failures, as in [Health]
	LastError      string
	LastErrorClass Class
	LastCallAt     *time.Time
}

// DayOfCalls counts the calls of a day of UTC.
type DayOfCalls struct {
	Date          string // 2026-11-22
	Calls, Failed int
}

// maxRecent is the number of each skill's calls that percentiles and streaks are computed of.
const maxRecent = 1000

// HealthOfAll reads how the calls of all skills ended on the last days up to now, by name. A skill
// without a call is left out.
func (r *Registry) HealthOfAll(ctx context.Context, ws db.Workspace, now time.Time, days int) (map[string]*Summary, error) {
	today := now.UTC().Truncate(24 * time.Hour)
	since := today.AddDate(0, 0, 1-days)
	found := map[string]*Summary{}
	of := func(name string) *Summary {
		if found[name] == nil {
			found[name] = &Summary{Days: NoCalls(now, days)}
		}
		return found[name]
	}
	var b db.Batch
	b.Each(func(scan db.Scan) error {
		var name string
		var p50, p95 *int64
		var s Summary
		if err := scan(&name, &p50, &p95, &s.Streak, db.Optional(&s.LastError), db.Optional(&s.LastErrorClass), &s.LastCallAt); err != nil {
			return err
		}
		s.P50, s.P95, s.Days = milliseconds(p50), milliseconds(p95), NoCalls(now, days)
		found[name] = &s
		return nil
	}, r.q.HealthOfAll, now.Sub(since).Milliseconds(), maxRecent)
	b.Each(func(scan db.Scan) error {
		var name, date string
		var calls, failed int
		if err := scan(&name, &date, &calls, &failed); err != nil {
			return err
		}
		s := of(name)
		s.Calls, s.Failed = s.Calls+calls, s.Failed+failed
		for i := range s.Days {
			if s.Days[i].Date == date {
				s.Days[i].Calls, s.Days[i].Failed = calls, failed
			}
		}
		return nil
	}, r.q.CallsOfAll, since)
	if err := r.db.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("read the health of all skills: %w", err)
	}
	return found, nil
}

// NoCalls returns the last days up to now, without a call.
func NoCalls(now time.Time, days int) []DayOfCalls {
	today := now.UTC().Truncate(24 * time.Hour)
	out := make([]DayOfCalls, days)
	for i := range out {
		out[i].Date = today.AddDate(0, 0, i+1-days).Format(time.DateOnly)
	}
	return out
}

package automation

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
	_ "time/tzdata" // a function's sandbox need not have it

	"github.com/netresearch/go-cron"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Schedule says when something is due: at the times of a cron expression in a time
// zone.
//
// An expression that names hours goes by the wall clock: a time that is skipped in
// spring is due at the first instant after the gap, one that comes twice in autumn
// is due the first time. An expression for every hour goes by real time: each hour
// that passes has its runs, the repeated one too.
type Schedule struct {
	spec   *cron.SpecSchedule
	zone   *time.Location
	hourly bool
}

// ErrNever says that an expression names no time that there is.
var ErrNever = errors.New("names no time that ever comes")

// horizon is how far ahead a run is looked for: a 29 February may be eight years
// away.
const horizon = 9

// ParseSchedule reads a cron expression of five fields, or one of @hourly, @daily,
// @weekly, @monthly and @yearly, and the name of a time zone; an empty one is UTC.
// The days of the month and of the week, where both are given, each suffice.
func ParseSchedule(expression, zone string) (Schedule, error) {
	loc, err := parseZone(zone)
	if err != nil {
		return Schedule{}, err
	}
	expression = strings.ToLower(strings.TrimSpace(expression))
	if len(expression) > maxExpression || !strings.HasPrefix(expression, "@") && !wellFormed(expression) {
		return Schedule{}, errNoCron
	}
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom | cron.Descriptor)
	if err != nil {
		return Schedule{}, fmt.Errorf("make a parser: %w", err)
	}
	parsed, err := parser.Parse(expression)
	spec, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return Schedule{}, errNoCron
	}
	s := Schedule{spec: spec, zone: loc, hourly: bits.OnesCount64(spec.Hour&(1<<24-1)) == 24}
	if _, ok := s.Next(epoch); !ok {
		return Schedule{}, ErrNever
	}
	return s, nil
}

// epoch is from where on an expression has to name some time.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

const maxExpression = 200

var errNoCron = errors.New("is no cron expression of five fields, nor one of @hourly, @daily, @weekly, @monthly, @yearly")

// part is what a field's list may be made of: the parser takes more than it should.
var part = pattern.New(`^(\*|[0-9a-z]+(-[0-9a-z]+)?)(/[0-9]+)?$`)

// wellFormed reports whether an expression has five fields of parts. A range of
// weekdays over the end of the week has no step: Sunday would count twice.
func wellFormed(expression string) bool {
	fields := strings.Fields(expression)
	for i, f := range fields {
		for p := range strings.SplitSeq(f, ",") {
			if !part().MatchString(p) || i == 4 && strings.Contains(p, "-") && strings.Contains(p, "/") && !ascends(p) {
				return false
			}
		}
	}
	return len(fields) == 5
}

// ascends reports whether a range of weekdays goes up in numbers.
func ascends(p string) bool {
	span, _, _ := strings.Cut(p, "/")
	low, high, _ := strings.Cut(span, "-")
	return len(low) == 1 && len(high) == 1 && low <= high && high < "7"
}

// parseZone reads the name of a time zone. The machine's own is none: it differs
// from one to the next.
func parseZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" || len(name) > maxZone || !zoneName().MatchString(name) {
		return nil, ErrZone
	}
	return loc, nil
}

// ErrZone says that there is no time zone of that name.
var ErrZone = errors.New("is no time zone, such as Europe/Berlin")

const maxZone = 64

// zoneName leaves out what only some systems have, such as right/Europe/Berlin.
var zoneName = pattern.New(`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// Next is the first time after t that the schedule names; false: there is none
// within nine years.
func (s Schedule) Next(after time.Time) (time.Time, bool) {
	local := after.In(s.zone)
	if s.hourly {
		return s.nextHourly(local)
	}
	y, m, d := local.Date()
	// A day before: what its gap pushed on may be due today.
	for day := time.Date(y, m, d-1, 0, 0, 0, 0, time.UTC); day.Year() <= y+horizon; day = day.AddDate(0, 0, 1) {
		if !s.onDay(day) {
			continue
		}
		for hour := range 24 {
			if !has(s.spec.Hour, hour) {
				continue
			}
			for minute := range 60 {
				if !has(s.spec.Minute, minute) {
					continue
				}
				if t := s.instant(day, hour, minute); t.After(after) {
					return t.UTC(), true
				}
			}
		}
	}
	return time.Time{}, false
}

// nextHourly goes by real time: the minutes that pass on a day that counts.
func (s Schedule) nextHourly(local time.Time) (time.Time, bool) {
	last := local.Year() + horizon
	t := local.Truncate(time.Minute).Add(time.Minute)
	for t.Year() <= last {
		y, m, d := t.Date()
		switch {
		case !s.onDay(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)):
			next := s.instant(time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC), 0, 0)
			if !next.After(t) { // a zone that goes back over midnight
				next = t.Add(time.Hour)
			}
			t = next.In(s.zone)
		case has(s.spec.Minute, t.Minute()):
			return t.UTC(), true
		default:
			t = t.Add(time.Minute)
		}
	}
	return time.Time{}, false
}

// star marks a field that was given as *.
const star = 1 << 63

func has(field uint64, v int) bool { return field&(1<<v) != 0 }

func (s Schedule) onDay(day time.Time) bool {
	if !has(s.spec.Month, int(day.Month())) {
		return false
	}
	dom, dow := has(s.spec.Dom, day.Day()), has(s.spec.Dow, int(day.Weekday()))
	if s.spec.Dom&star != 0 || s.spec.Dow&star != 0 {
		return dom && dow
	}
	return dom || dow
}

// instant is when the wall clock first shows the time; for one that it skips, the
// end of the gap.
func (s Schedule) instant(day time.Time, hour, minute int) time.Time {
	y, m, d := day.Date()
	want := time.Date(y, m, d, hour, minute, 0, 0, time.UTC)
	t := time.Date(y, m, d, hour, minute, 0, 0, s.zone)
	begin, end := t.ZoneBounds()
	switch shown := clock(t); {
	case shown.After(want):
		return begin
	case shown.Before(want):
		return end
	case begin.IsZero():
		return t
	}
	_, now := t.Zone()
	_, before := begin.Add(-time.Second).Zone()
	earlier := t.Add(time.Duration(now-before) * time.Second)
	if earlier.Before(begin) && clock(earlier).Equal(want) {
		return earlier
	}
	return t
}

// clock is what the wall clock shows at t, as if it were UTC.
func clock(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

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

// Schedule holds the times of a cron expression in a time zone.
//
// An expression that names hours follows the wall clock. A time that is skipped in spring is due at
// the first instant after the gap. A time that occurs twice in autumn is due the first time only.
// An expression for every hour follows elapsed time: each hour has its runs, also the repeated one.
type Schedule struct {
	spec   *cron.SpecSchedule
	zone   *time.Location
	hourly bool
}

// ErrNever says that an expression never matches any time.
var ErrNever = errors.New("names no time that ever comes")

// horizon is how many years ahead a time is searched. A 29 February may be eight years away.
const horizon = 9

// ParseSchedule parses a cron expression of five fields, or one of @hourly, @daily, @weekly,
// @monthly and @yearly, and the name of a time zone. An empty zone is UTC. If both days of the
// month and days of the week are given, a day that matches one of them is enough.
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

// epoch is the time from which an expression must have a next time.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

const maxExpression = 200

var errNoCron = errors.New("is no cron expression of five fields, nor one of @hourly, @daily, @weekly, @monthly, @yearly")

// part matches one item of a field's list. The cron parser accepts more than it should.
var part = pattern.New(`^(\*|[0-9a-z]+(-[0-9a-z]+)?)(/[0-9]+)?$`)

// wellFormed reports whether an expression has five fields of valid parts. It refuses a step in a
// range of weekdays that wraps around the end of the week: Sunday would count twice.
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

// ascends reports whether a range of weekdays is given in ascending numbers.
func ascends(p string) bool {
	span, _, _ := strings.Cut(p, "/")
	low, high, _ := strings.Cut(span, "-")
	return len(low) == 1 && len(high) == 1 && low <= high && high < "7"
}

// parseZone parses the name of a time zone. It refuses the machine's local zone, because that
// differs between machines.
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

// CheckZone returns [ErrZone] unless name is empty or the name of a time zone.
func CheckZone(name string) error {
	_, err := parseZone(name)
	return err
}

// ErrZone says that there is no time zone of that name.
var ErrZone = errors.New("is no time zone, such as Europe/Berlin")

const maxZone = 64

// zoneName excludes names that only some systems have, such as right/Europe/Berlin.
var zoneName = pattern.New(`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// Next returns the first time of the schedule after the given one. It returns false if there is
// none within nine years.
func (s Schedule) Next(after time.Time) (time.Time, bool) {
	local := after.In(s.zone)
	if s.hourly {
		return s.nextHourly(local)
	}
	y, m, d := local.Date()
	// Start one day earlier: a gap may have moved a time of that day to today.
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

// nextHourly follows elapsed time: it steps through the minutes of the matching days.
func (s Schedule) nextHourly(local time.Time) (time.Time, bool) {
	last := local.Year() + horizon
	t := local.Truncate(time.Minute).Add(time.Minute)
	for t.Year() <= last {
		y, m, d := t.Date()
		switch {
		case !s.onDay(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)):
			next := s.instant(time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC), 0, 0)
			if !next.After(t) { // a zone that sets its clock back over midnight
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

// instant returns when the wall clock first shows the time. For a time that the clock skips, it
// returns the end of the gap.
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

// clock returns the wall clock's time at t, as if it were UTC.
func clock(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

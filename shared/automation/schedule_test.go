package automation_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/automation"
)

// TestTheWallClockOnChangeoverDays shows the rules on days on which clocks change.
func TestTheWallClockOnChangeoverDays(t *testing.T) {
	for _, c := range []struct{ cron, zone, after, want string }{
		// Berlin skips 02:00 to 03:00 on 29 March and repeats it on 25 October.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"15,45 2 * * *", "Europe/Berlin", "2026-03-29T00:59:00Z", "2026-03-29T01:00:00Z"},
		{"15,45 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z"}, // both were the same instant
		{"0 3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}, // not again at 01:30Z
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"},
		{"*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"},
		{"0 */2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"@daily", "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"@hourly", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"30 1 * * *", "America/New_York", "2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z"},
		{"30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
		{"30 2 8 3 *", "America/New_York", "2026-01-01T00:00:00Z", "2026-03-08T07:00:00Z"},
		// Lord Howe moves by half an hour: 02:00 to 02:30 is skipped on 4 October, 01:30 to 02:00
		// occurs twice on 5 April.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "2026-04-04T14:45:00Z"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"},
		// São Paulo skipped midnight until 2018, Samoa a whole day in 2011.
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z"},
		{"0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z"},
		// Days: if both are given, one match is enough.
		{"0 0 13 * 5", "", "2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z"},
		{"0 0 14 * 5", "", "2026-11-13T00:00:00Z", "2026-11-14T00:00:00Z"},
		{"0 0 29 2 *", "", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 * * THU", "", "2026-11-20T00:00:00Z", "2026-11-26T00:00:00Z"},
		{"0 0 * JAN Fri-Tue", "", "2026-11-20T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@Daily", "", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"},
		{"59 23 31 12 *", "Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-12-31T18:14:00Z"},
	} {
		s, err := automation.ParseSchedule(c.cron, c.zone)
		if err != nil {
			t.Errorf("%s: %v", c.cron, err)
			continue
		}
		next, ok := s.Next(moment(t, c.after))
		if got := next.Format(time.RFC3339); !ok || got != c.want {
			t.Errorf("%s in %s after %s is %s, not %s", c.cron, c.zone, c.after, got, c.want)
		}
	}
}

func moment(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestEveryRunIsTheReferences compares 126 expressions in five zones, on the days on which their
// clocks change, with a reference that steps through the minutes.
func TestEveryRunIsTheReferences(t *testing.T) {
	var expressions []string
	for _, minute := range []string{"0", "30", "*", "*/7", "5-55/25", "59", "0,29,31"} {
		for _, hour := range []string{"*", "0", "1", "2", "3", "23", "*/2", "1-3", "2,3"} {
			for _, days := range []string{"* * *", "1-7,25-31 * 0"} {
				expressions = append(expressions, minute+" "+hour+" "+days)
			}
		}
	}
	for zone, days := range map[string][]string{
		"Europe/Berlin":       {"2026-03-28", "2026-10-24"},
		"America/New_York":    {"2026-03-07", "2026-10-31"},
		"Australia/Lord_Howe": {"2026-04-03", "2026-10-02"},
		"America/Sao_Paulo":   {"2018-11-03", "2018-02-16"},
		"Africa/Casablanca":   {"2026-02-14", "2026-03-21"}, // winter time for Ramadan
	} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		walls := map[string][]time.Time{}
		for _, day := range days {
			walls[day] = wallClock(loc, moment(t, day+"T00:00:00Z"))
		}
		for _, expression := range expressions {
			s, err := automation.ParseSchedule(expression, zone)
			if err != nil {
				t.Fatalf("%s: %v", expression, err)
			}
			for _, day := range days {
				from := moment(t, day+"T00:00:00Z")
				want := reference(expression, walls[day], from)
				var got []time.Time
				for at, ok := s.Next(from); ok && at.Before(from.Add(72*time.Hour)); at, ok = s.Next(at) {
					got = append(got, at)
				}
				runs += len(got)
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Errorf("%s in %s from %s:\n got %v\nwant %v", expression, zone, day, got, want)
				}
			}
		}
		t.Logf("%s: %d expressions, %d runs", zone, len(expressions), runs)
	}
}

// wallClock returns the clock's time in each minute from two days before to three days after.
func wallClock(loc *time.Location, from time.Time) (walls []time.Time) {
	for minute := range (48 + 72) * 60 {
		at := from.Add(-48*time.Hour + time.Duration(minute)*time.Minute).In(loc)
		y, m, d := at.Date()
		walls = append(walls, time.Date(y, m, d, at.Hour(), at.Minute(), 0, 0, time.UTC))
	}
	return walls
}

// reference steps through every elapsed minute and reads the wall clock. A skipped time counts at
// the end of the gap. A repeated time counts again only for expressions of every hour.
func reference(expression string, walls []time.Time, from time.Time) (runs []time.Time) {
	f := strings.Fields(expression)
	var has [5][60]bool
	for i, most := range []int{59, 23, 31, 12, 6} {
		for v := range most + 1 {
			has[i][v] = in(f[i], v, most)
		}
	}
	matches := func(wall time.Time) bool {
		if !has[0][wall.Minute()] || !has[1][wall.Hour()] || !has[3][wall.Month()] {
			return false
		}
		dom, dow := has[2][wall.Day()], has[4][wall.Weekday()]
		if f[2] != "*" && f[4] != "*" {
			return dom || dow
		}
		return dom && dow
	}
	last := walls[0] // the latest time that the clock has shown
	for i, wall := range walls {
		due := matches(wall) && (f[1] == "*" || wall.After(last))
		if f[1] != "*" {
			for skipped := last.Add(time.Minute); skipped.Before(wall); skipped = skipped.Add(time.Minute) {
				due = due || matches(skipped)
			}
		}
		if wall.After(last) {
			last = wall
		}
		if at := from.Add(-48*time.Hour + time.Duration(i)*time.Minute); due && at.After(from) {
			runs = append(runs, at)
		}
	}
	return runs
}

// in reports whether a field of an expression contains the value.
func in(field string, v, most int) bool {
	for part := range strings.SplitSeq(field, ",") {
		span, step, _ := strings.Cut(part, "/")
		low, high := 0, most
		if span != "*" {
			a, b, isRange := strings.Cut(span, "-")
			low, _ = strconv.Atoi(a)
			high = low
			if isRange {
				high, _ = strconv.Atoi(b)
			}
		}
		n, _ := strconv.Atoi(step)
		if v >= low && v <= high && (v-low)%max(n, 1) == 0 {
			return true
		}
	}
	return false
}

func TestWhatIsNoSchedule(t *testing.T) {
	for _, never := range []string{"0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *", "0 0 30,31 2 *"} {
		if _, err := automation.ParseSchedule(never, ""); !errors.Is(err, automation.ErrNever) {
			t.Errorf("%s: %v", never, err)
		}
	}
	for _, wrong := range []string{
		"", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8", "-1 * * * *",
		"1-0 * * *", "*/0 * * * *", "a * * * *", "@every 1m", "@every 1ns", "@reboot", "@nonsense", "TZ=UTC * * * * *", "CRON_TZ=UTC 0 0 * * *",
		"0 0 L * *", "0 0 15W * *", "0 0 * * 5#2", "0 0 * * 5L", "H * * * *", "*-5 * * * *", "+1 * * * *", "1, * * * *", "0 0 * * fri-tue/2", "0 0 * * 5-7/2", "* * * * *\n* * * * *", strings.Repeat("1,", 150) + "1 * * * *",
	} {
		if _, err := automation.ParseSchedule(wrong, ""); err == nil || errors.Is(err, automation.ErrNever) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, zone := range []string{"Local", "Europe/Atlantis", "CEST", "../../etc/passwd", "right/Europe/Berlin", "posix/Europe/Berlin", "posixrules", "/etc/localtime", " ", strings.Repeat("x", 100)} {
		if _, err := automation.ParseSchedule("* * * * *", zone); !errors.Is(err, automation.ErrZone) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, s := range []string{"* * * * *", "0 0 29 2 *", "*/5 1-3 1,15 jan-mar mon", "@daily", "0 0 31 4 *", "TZ=x * * * * *"} {
		f.Add(s, "Europe/Berlin", int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, expression, zone string, at int64) {
		s, err := automation.ParseSchedule(expression, zone)
		if err != nil {
			return
		}
		after := time.Unix(at%8_000_000_000, 0)
		if next, ok := s.Next(after); ok && (!next.After(after) || next.Second() != 0 && after.Year() > 1972) {
			t.Errorf("%q in %q after %v: %v", expression, zone, after, next)
		}
	})
}

func ExampleParseSchedule() {
	s, err := automation.ParseSchedule("30 9 * * 1-5", "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	next, _ := s.Next(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)) // a Friday
	fmt.Println(next)
	// Output: 2026-11-23 08:30:00 +0000 UTC
}

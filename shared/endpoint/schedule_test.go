package endpoint_test

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/endpoint"
)

// TestTheSchedule: the attempts follow the steps of Standard Webhooks, the last one 24 hours after the
// first, and Retry-After only delays.
func TestTheSchedule(t *testing.T) {
	var since time.Duration
	var got []time.Duration
	for attempt := 1; ; attempt++ {
		delay, more := endpoint.Next(attempt, since, 0, 0)
		if !more {
			break
		}
		since += delay
		got = append(got, since)
	}
	want := []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute}
	for _, hours := range []int{2, 5, 10, 14, 20, 24} {
		want = append(want, time.Duration(hours)*time.Hour)
	}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("attempt %d comes after %v, want %v", i+2, got[i], want[i])
		}
	}
	for _, c := range []struct {
		attempt      int
		since, asked time.Duration
		random       float64
		want         time.Duration
		more         bool
	}{
		{1, 0, time.Hour, 0, time.Hour, true},
		{1, 0, time.Second, 0, 5 * time.Second, true},
		{1, 0, 0, 0.5, 5250 * time.Millisecond, true},
		{4, 23 * time.Hour, 9 * time.Hour, 0, time.Hour, true}, // the last one is after 24 hours
		{4, 24 * time.Hour, 0, 0, 0, false},
		{10, time.Hour, 0, 0, 0, false},
	} {
		if delay, more := endpoint.Next(c.attempt, c.since, c.asked, c.random); delay != c.want || more != c.more {
			t.Errorf("%+v: %v, %v", c, delay, more)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 120 ": 2 * time.Minute, "9999999": 24 * time.Hour, "-3": 0, "soon": 0,
		"Mon, 23 Nov 2026 12:30:00 GMT": 30 * time.Minute, "Mon, 23 Nov 2026 11:30:00 GMT": 0, "Mon, 23 Nov 2099 11:30:00 GMT": 24 * time.Hour,
	} {
		if got := endpoint.RetryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

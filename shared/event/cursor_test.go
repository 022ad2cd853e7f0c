package event_test

import (
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/event"
)

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "0-0", "1-2", "-", "1", "1-", "-1-2", "+1-2", "01-2", "1-2-3", "9223372036854775807-1", "9223372036854775808-1", "1-2\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := event.ParseCursor(s)
		if err != nil {
			if !errors.Is(err, event.ErrCursor) || c != (event.Cursor{}) {
				t.Errorf("%q: %v, %v", s, c, err)
			}
			return
		}
		if c.String() != s {
			t.Errorf("%q is read as %q", s, c)
		}
	})
}

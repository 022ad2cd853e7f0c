package trace

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var surfaces = []Surface{Heartbeat, Operate, Chat, Webhook, Coordinator, Worker}

func TestParse(t *testing.T) {
	id, info, err := Parse("hb_0mh8c1v2q_a7x2p1k9d4")
	if err != nil {
		t.Fatal(err)
	}
	want := Info{Heartbeat, time.UnixMilli(1761520881554).UTC()}
	if id != "hb_0mh8c1v2q_a7x2p1k9d4" || info != want {
		t.Errorf("got %q %+v, want %+v", id, info, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"empty":             "",
		"unknown surface":   "zz_0mh8c1v2q_a7x2p1k9d4",
		"upper surface":     "HB_0mh8c1v2q_a7x2p1k9d4",
		"upper time":        "hb_0MH8C1V2Q_a7x2p1k9d4",
		"upper random":      "hb_0mh8c1v2q_A7x2p1k9d4",
		"short time":        "hb_mh8c1v2q_a7x2p1k9d4",
		"short random":      "hb_0mh8c1v2q_a7x2p1k9d",
		"long random":       "hb_0mh8c1v2q_a7x2p1k9d4x",
		"moved separator":   "hb_0mh8c1v2_qa7x2p1k9d4",
		"other separator":   "hb-0mh8c1v2q-a7x2p1k9d4",
		"space":             "hb_0mh8c1v2q_a7x2p1k9d ",
		"newline":           "hb_0mh8c1v2q_a7x2p1k9d\n",
		"sign":              "hb_+mh8c1v2q_a7x2p1k9d4",
		"letter of 2 bytes": "hb_0mh8c1v2q_a7x2p1k9é",
		"nul":               "hb_0mh8c1v2q_a7x2p1k9d\x00",
	} {
		id, info, err := Parse(s)
		if !errors.Is(err, ErrInvalid) || id != "" || info != (Info{}) {
			t.Errorf("%s: got %q %+v, error %v", name, id, info, err)
		}
		if err != nil && s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("%s: the error repeats the input: %v", name, err)
		}
	}
}

// TestFormatParse: Parse reads what format writes, and ids sort as text like their numbers.
func TestFormatParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		surface := rapid.SampledFrom(surfaces).Draw(t, "surface")
		millis := rapid.Uint64Range(0, maxMillis)
		random := rapid.Uint64Range(0, randomSpace-1)
		m1, m2 := millis.Draw(t, "millis"), millis.Draw(t, "millis")
		r1, r2 := random.Draw(t, "random"), random.Draw(t, "random")
		a, b := format(surface, m1, r1), format(surface, m2, r2)

		id, info, err := Parse(string(a))
		if err != nil {
			t.Fatal(err)
		}
		if id != a || info.Surface != surface || info.Time.UnixMilli() != int64(m1) {
			t.Fatalf("%q parsed as %q %+v", a, id, info)
		}
		if before := m1 < m2 || m1 == m2 && r1 < r2; before != (a < b) {
			t.Fatalf("%d %d before %d %d is %v, texts %q %q", m1, r1, m2, r2, before, a, b)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("hb_0mh8c1v2q_a7x2p1k9d4")
	f.Add("wk_zzzzzzzzz_zzzzzzzzzz")
	f.Add("co_000000000_0000000000")
	f.Add("hb_0mh8c1v2q_a7x2p1k9d")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		id, info, err := Parse(s)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || id != "" {
				t.Fatalf("%q: id %q, error %v", s, id, err)
			}
			return
		}
		random, _ := parse36(s[randomAt:])
		if again := format(info.Surface, uint64(info.Time.UnixMilli()), random); string(again) != s || id != again {
			t.Fatalf("%q is accepted as %q and written as %q", s, id, again)
		}
	})
}

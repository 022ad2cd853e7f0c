package edge

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func at(hour, minute int) time.Time { return time.Date(2026, 1, 5, hour, minute, 0, 0, time.UTC) }

// The shipped events decode to the ticks that they describe.
func TestDecodeShippedEvents(t *testing.T) {
	want := map[string]heartbeat.Tick{
		"01_schedule":                {Slot: at(10, 30)},
		"02_fanout":                  {Workspace: workspace.Default, Slot: at(11, 0)},
		"03_classic_scheduled_event": {Slot: at(11, 30)},
		"04_by_hand":                 {},
		"05_scheduler_default":       {Slot: at(12, 0)},
	}
	cases := events.For("heartbeat")
	if len(cases) != len(want) {
		t.Errorf("%d events, want %d", len(cases), len(want))
	}
	for _, c := range cases {
		if got, err := DecodeTick(c.Payload); err != nil || got != want[c.Name] {
			t.Errorf("%s: %+v, %v", c.Name, got, err)
		}
	}
}

const ws = "0198a2b4-0000-7000-8000-00000000000a"

func TestDecodeTick(t *testing.T) {
	for payload, want := range map[string]heartbeat.Tick{
		`{}`:                        {},
		` {"full":true} `:           {Full: true},
		`{"by":"hand","slot":null}`: {},
		`{"by":"hand","workspace":"` + ws + `","full":true}`:                                                      {Workspace: ws, Full: true},
		`{"workspace":"` + strings.ToUpper(ws) + `","slot":"2026-01-05T11:30:59.9+01:00"}`:                        {Workspace: ws, Slot: at(10, 30)},
		`{"source":"lanekeeper.schedule","slot":"2026-01-05T10:30:41Z"}`:                                          {Slot: at(10, 30)},
		`{"source":"aws.events","detail-type":"Scheduled Event","time":"2026-01-05T10:30:00Z"}`:                   {Slot: at(10, 30)},
		`{"time":"2026-01-05T10:30:00Z","detail-type":"Scheduled Event","source":"aws.events","replay-name":"x"}`: {Slot: at(10, 30)},
	} {
		got, err := DecodeTick([]byte(payload))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", payload, got, err)
		}
		if got.Slot.Location() != time.UTC {
			t.Errorf("%s: the slot is not in UTC", payload)
		}
	}
}

func TestDecodeTickRefuses(t *testing.T) {
	for payload, field := range map[string]string{
		``:                             "",
		` `:                            "",
		`null`:                         "",
		`[]`:                           "",
		`"hand"`:                       "",
		`{"by":"hand"`:                 "",
		`{"by":"hand",}`:               "",
		`{by:"hand"}`:                  "",
		`{"by":"hand"}{}`:              "",
		"{\"by\":\"hand\"}\x00":        "",
		`{"full":true,"full":false}`:   "full",
		`{"by":"hunter2"}`:             "by",
		`{"by":1}`:                     "by",
		`{"By":"hand"}`:                "By",
		`{"full":"yes"}`:               "full",
		`{"workspace":"hunter2"}`:      "workspace",
		`{"workspace":"` + ws + ` "}`:  "workspace",
		`{"workspace":"{` + ws + `}"}`: "workspace",
		`{"workspace":["` + ws + `"]}`: "workspace",
		`{"workspace":"00000000-0000-0000-0000-000000000000"}`:                                             "workspace",
		`{"slot":"2026-01-05T10:30:00Z"}`:                                                                  "workspace",
		`{"slot":"2026-01-05T10:30:00Z","by":"hand","workspace":"` + ws + `"}`:                             "slot",
		`{"workspace":"` + ws + `","slot":"hunter2"}`:                                                      "slot",
		`{"workspace":"` + ws + `","slot":1795170600}`:                                                     "slot",
		`{"workspace":"` + ws + `","slot":"0001-01-01T00:00:00Z"}`:                                         "slot",
		`{"workspace":"` + ws + `","slot":"9999-12-31T23:59:00-23:00"}`:                                    "slot",
		`{"workspace":"` + ws + `","wait":1}`:                                                              "wait",
		`{"source":"hunter2","slot":"2026-01-05T10:30:00Z"}`:                                               "source",
		`{"source":"lanekeeper.schedule"}`:                                                                 "slot",
		`{"source":"lanekeeper.schedule","slot":"<aws.scheduler.scheduled-time>"}`:                         "slot",
		`{"source":"lanekeeper.schedule","slot":"2026-01-05T10:30:00Z","workspace":"x"}`:                   "workspace",
		`{"source":"aws.scheduler","detail-type":"Scheduled Event","detail":"{}"}`:                         "time",
		`{"source":"aws.events","time":"2026-01-05T10:30:00Z"}`:                                            "detail-type",
		`{"source":"aws.events","detail-type":"Scheduled Event"}`:                                          "time",
		`{"source":"aws.events","detail-type":"Scheduled Event","time":"2026-01-05T10:30:00Z","slot":"x"}`: "slot",
		`{"` + strings.Repeat("é", 100) + `":1}`:                                                           strings.Repeat("?", 40) + "…",
		`{"by":"` + strings.Repeat("x", maxEvent) + `"}`:                                                   "",
		strings.Repeat(`{"a":`, 20_000):                                                                    "",
	} {
		got, err := DecodeTick([]byte(payload))
		bad, ok := errors.AsType[*EventError](err)
		if !ok || got != (heartbeat.Tick{}) || bad.Field != field {
			t.Errorf("%.100q: %+v, %v", payload, got, err)
		}
		if ok && (strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 200) {
			t.Errorf("%.100q: the error says too much: %v", payload, err)
		}
	}
}

// The heartbeat decodes the events that the fan-out encodes.
func TestEncodeTick(t *testing.T) {
	for _, want := range []heartbeat.Tick{
		{Workspace: ws, Slot: at(10, 30)}, {Workspace: ws}, {Workspace: ws, Full: true}, {Workspace: ws, Slot: at(0, 0), Full: true},
	} {
		payload, err := encodeTick(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeTick(payload); err != nil || got != want {
			t.Errorf("%+v was written as %s and read as %+v, %v", want, payload, got, err)
		}
	}
}

func FuzzDecodeTick(f *testing.F) {
	for _, c := range events.All() {
		f.Add(c.Payload)
	}
	f.Add([]byte(`{"workspace":"` + ws + `","slot":"2026-01-05T10:30:00Z","full":true}`))
	f.Add([]byte(`{"by":"hand","by":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		tick, err := DecodeTick(payload)
		if err != nil {
			if _, ok := errors.AsType[*EventError](err); !ok || tick != (heartbeat.Tick{}) {
				t.Fatalf("%q: %+v, %v", payload, tick, err)
			}
			if len(err.Error()) > 200 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Fatalf("%q: the error is %q", payload, err)
			}
			return
		}
		if !json.Valid(payload) || len(payload) > maxEvent {
			t.Fatalf("%q was accepted", payload)
		}
		if !tick.Slot.IsZero() && (tick.Slot.Location() != time.UTC || !tick.Slot.Equal(tick.Slot.Truncate(time.Minute)) || tick.Slot.Year() < 2020) {
			t.Fatalf("%q: slot %v", payload, tick.Slot)
		}
		if tick.Workspace != "" && len(tick.Workspace) != len(ws) {
			t.Fatalf("%q: workspace %q", payload, tick.Workspace)
		}
	})
}

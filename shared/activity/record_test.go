package activity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestWhatIsRecordedIsReadBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		cost := 0.012345
		e := activity.Entry{
			ID: ids(), Agent: "flöwpilot", Surface: trace.Worker, Skill: "save_memory", SkillID: ids(), Status: activity.PendingApproval,
			Input:  json.RawMessage(`{"text": "naïve café ☕ 𝄞 \u0001", "n": 12345678901234567890, "nested": {"a": [1, null, true]}}`),
			Output: json.RawMessage(`["<b>&amp;</b>"]`), Error: "schlug fehl: ☠ “quoted” 'single' \\ \t\n",
			Usage: &activity.Usage{PromptTokens: 1 << 40, CompletionTokens: 2, TotalTokens: 1<<40 + 2}, Model: "model-ü", CostUSD: &cost,
			Duration: 1500 * time.Millisecond, Trace: newTrace(), Execution: ids(), ParentExecution: ids(), Attempt: 3, Thread: ids(),
		}
		w.write(t, e)
		got := w.the(t, e.Trace)
		if !sameJSON(t, got.Input, e.Input) || !sameJSON(t, got.Output, e.Output) {
			t.Errorf("input %s, output %s", got.Input, got.Output)
		}
		if since := time.Since(got.CreatedAt).Abs(); since > time.Minute || got.CreatedAt.Location() != time.UTC {
			t.Errorf("recorded at %s", got.CreatedAt)
		}
		got.Input, got.Output, got.CreatedAt = e.Input, e.Output, e.CreatedAt
		if diff := cmp.Diff(e, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatIsAbsentStaysAbsent(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		e := activity.Entry{Agent: "a", Surface: trace.Chat, Status: activity.Skipped, Trace: newTrace()}
		w.write(t, e)
		got := w.the(t, e.Trace)
		got.ID, got.CreatedAt = "", time.Time{}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTraceAndExecutionComeFromTheContext(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id, execution := newTrace(), ids()
		ctx := trace.WithExecution(trace.With(t.Context(), id), execution)
		if err := w.log.Write(ctx, w.Workspace, entry("from context", "")); err != nil {
			t.Fatal(err)
		}
		if got := w.the(t, id); got.Execution != execution {
			t.Errorf("the execution is %q", got.Execution)
		}
		own := entry("its own", newTrace())
		own.Execution = ids()
		if err := w.log.Write(ctx, w.Workspace, own); err != nil {
			t.Fatal(err)
		}
		if got := w.the(t, own.Trace); got.Execution != own.Execution {
			t.Errorf("the execution is %q", got.Execution)
		}
	})
}

func TestAnActionIsUndoneWithTheChangeItReports(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		failed := errors.New("the change failed")
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			w.log.Record(ctx, tx.Later(), entry("undone", newTrace()))
			if err := tx.Flush(ctx); err != nil {
				return err
			}
			return failed
		})
		if !errors.Is(err, failed) || w.count(t) != 0 {
			t.Errorf("%d actions are left (%v)", w.count(t), err)
		}
	})
}

// nasty are texts that one of the databases refuses unchanged.
var nasty = []string{
	"a\x00b", "\x00", "\xff\xfe", "half \xe2\x82", "\xed\xa0\x80", strings.Repeat("\x80", 10_000), "ok \U0010FFFF", "\u2028", "'; DROP TABLE",
}

// nastyJSON are values that one of the databases refuses in a JSON column.
var nastyJSON = []string{
	`{"a": "\u0000"}`, `{"\u0000": 1, "\u0000\u0000": 2}`, `"\ud800"`, `["\udc00\ud800"]`, `"\\u0000"`, "\"\xff\"", `{"a": 1e400000}`, `[1e-20000]`,
	`-1E+99999`, `[0e-20000, 0e99999999999, 0.0e-99999999999999999999]`,
	`{"n": 1.` + strings.Repeat("0", 16_384) + `}`, strings.Repeat("9", 200_000), `{`, `not JSON`, `"a` + "\x00" + `b"`, "\x00", `{"a": 1} {"b": 2}`,
	strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), strings.Repeat("[", 11_000) + strings.Repeat("]", 11_000),
}

func TestNoTextFailsTheTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, text := range nasty {
			e := activity.Entry{Agent: "a" + text, Surface: trace.Chat, Skill: text, Status: activity.Error, Error: text, Model: text, Trace: newTrace()}
			w.write(t, e)
			if got := w.the(t, e.Trace); !utf8.ValidString(got.Error) || got.Error == "" {
				t.Errorf("%.20q was read back as %.20q", text, got.Error)
			}
		}
		for _, value := range nastyJSON {
			e := entry("json", newTrace())
			e.Input, e.Output = json.RawMessage(value), json.RawMessage(value)
			w.write(t, e)
			if got := w.the(t, e.Trace); !json.Valid(got.Input) || !sameJSON(t, got.Input, got.Output) {
				t.Errorf("%.40q was read back as %.40q and %.40q", value, got.Input, got.Output)
			}
		}
	})
}

func TestAnythingCanBeRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		rapid.Check(t, func(t *rapid.T) {
			var b db.Batch
			for range 10 {
				e := entry(string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "skill")), newTrace())
				e.Error = rapid.String().Draw(t, "error")
				e.Input = json.RawMessage(rapid.SliceOf(rapid.Byte()).Draw(t, "input"))
				raw, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.Float64()).Draw(t, "output"))
				if err == nil {
					e.Output = raw
				}
				w.log.Record(context.Background(), &b, e)
			}
			if err := w.DB.Do(context.Background(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func TestLongBodiesAreCutWithAMarker(t *testing.T) {
	const most = 32 << 10
	onEach(t, func(t *testing.T, w world) {
		for name, text := range map[string]string{
			"plain":      strings.Repeat("x", 100_000),
			"two bytes":  strings.Repeat("ä", 50_000),
			"four bytes": strings.Repeat("𝄞", 25_000),
			"quotes":     strings.Repeat(`"`, 100_000),
			"control":    strings.Repeat("\x01", 40_000),
			"HTML":       strings.Repeat("<", 100_000),
		} {
			raw, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			e := entry("long", newTrace())
			e.Input, e.Output = raw, json.RawMessage(`{"short": true}`)
			e.Error = text
			w.write(t, e)
			got := w.the(t, e.Trace)
			var marker struct {
				Truncated bool
				Bytes     int
				Beginning string
			}
			if err := json.Unmarshal(got.Input, &marker); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !marker.Truncated || marker.Bytes < len(text) || len(marker.Beginning) < 1000 || !utf8.ValidString(marker.Beginning) {
				t.Errorf("%s: the marker is %.200s", name, got.Input)
			}
			if len(got.Input) > most+100 { // a database may add spaces
				t.Errorf("%s: %d bytes are kept", name, len(got.Input))
			}
			if !sameJSON(t, got.Output, e.Output) {
				t.Errorf("%s: a short value became %s", name, got.Output)
			}
			if len(got.Error) > 4<<10 || !strings.HasPrefix(text, got.Error) {
				t.Errorf("%s: the error has %d bytes", name, len(got.Error))
			}
		}
		exact := json.RawMessage(`"` + strings.Repeat("x", most-2) + `"`)
		e := entry("exact", newTrace())
		e.Input = exact
		w.write(t, e)
		if got := w.the(t, e.Trace); !sameJSON(t, got.Input, exact) {
			t.Errorf("32 KiB were cut to %.100s", got.Input)
		}
	})
}

func TestAForeignStatusIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		e := entry("x", newTrace())
		e.Status = "fine"
		if err := w.log.Write(t.Context(), w.Workspace, e); !errors.Is(err, db.ErrCheck) {
			t.Errorf("got %v", err)
		}
	})
}

// unusual matches escapes and long numbers, which may be replaced.
var unusual = regexp.MustCompile(`\\u|[0-9][eE][+-]?[0-9]{3}|[0-9.]{300}`)

func FuzzStorable(f *testing.F) {
	for _, v := range nastyJSON {
		f.Add([]byte(v))
	}
	f.Add([]byte(`{"a": 1.50, "b": "<>&\u00e4", "c": [1e2, -0, 1e-300]}`))
	f.Fuzz(func(t *testing.T, v []byte) {
		got := activity.Storable(v)
		if len(v) == 0 {
			if len(got) != 0 {
				t.Errorf("nothing became %s", got)
			}
			return
		}
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("%q became %q", v, got)
		}
		if again := activity.Storable(got); !sameJSON(t, again, got) {
			t.Errorf("%q became %q and then %q", v, got, again)
		}
		var before, after any
		if json.Unmarshal(v, &before) == nil && utf8.Valid(v) && !unusual.Match(v) && bytes.Count(v, []byte("["))+bytes.Count(v, []byte("{")) < 100 {
			if err := json.Unmarshal(got, &after); err != nil || !reflect.DeepEqual(before, after) {
				t.Errorf("%q changed to %q (%v)", v, got, err)
			}
		}
	})
}

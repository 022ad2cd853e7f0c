package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

type (
	word   string
	number int32
	amount float64
	flag   bool
)

func TestArgument(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("", 2*3600))
	for _, c := range []struct {
		name string
		in   any
		want any
	}{
		{"nil", nil, nil},
		{"string", "a", "a"},
		{"empty string stays", "", ""},
		{"named string", word("a"), "a"},
		{"workspace", db.Workspace("a"), "a"},
		{"int", 7, int64(7)},
		{"int8", int8(-7), int64(-7)},
		{"int64", int64(7), int64(7)},
		{"uint32", uint32(7), int64(7)},
		{"named integer", number(7), int64(7)},
		{"month", time.November, int64(11)},
		{"float64", 0.5, 0.5},
		{"float32", float32(0.5), 0.5},
		{"named float", amount(0.5), 0.5},
		{"bool", true, true},
		{"named bool", flag(true), true},
		{"time is UTC", noon, noon.UTC()},
		{"bytes", []byte{1}, []byte{1}},
		{"no bytes are null", []byte(nil), nil},
		{"JSON is text", json.RawMessage(`{"a":1}`), `{"a":1}`},
		{"no JSON is null", json.RawMessage(nil), nil},
		{"JSON null is a value", json.RawMessage(`null`), `null`},
		{"pointer", new("a"), "a"},
		{"pointer to named string", new(word("a")), "a"},
		{"pointer to time", &noon, noon.UTC()},
		{"nil pointer", (*string)(nil), nil},
		{"nil pointer to time", (*time.Time)(nil), nil},
		{"Null of nothing", db.Null(""), nil},
		{"Null of something", db.Null(word("a")), "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := db.Argument(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestArgumentRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		in    any
		want  string
		check bool
	}{
		{"a duration without its unit", time.Second, "say the unit", false},
		{"a slice", []string{"a"}, "[]string: no engine takes it", false},
		{"a map", map[string]int{}, "map[string]int: no engine takes it", false},
		{"a struct", struct{}{}, "struct {}: no engine takes it", false},
		{"an array", uuid.UUID{}, "uuid.UUID: no engine takes it", false},
		{"what may not fit", uint64(7), "uint64: no engine takes it", false},
		{"text with a NUL", "a\x00b", "NUL", true},
		{"named text with a NUL", word("\x00"), "NUL", true},
		{"text that is not UTF-8", "\xff", "not UTF-8", true},
		{"JSON that is not UTF-8", json.RawMessage("\"\xff\""), "not UTF-8", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := db.Argument(c.in)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, db.ErrCheck) != c.check {
				t.Errorf("got %#v and error %v", got, err)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string
	}{
		{[]string{"a", "b"}, `["a","b"]`},
		{map[string]int{"a": 1}, `{"a":1}`},
		{json.RawMessage(`[1]`), `[1]`},
		{json.RawMessage(nil), `null`},
		{nil, `null`},
	} {
		if got, err := db.JSON(c.in); err != nil || got != c.want {
			t.Errorf("JSON(%#v) = %s, %v; want %s", c.in, got, err, c.want)
		}
	}
	if _, err := db.JSON(func() {}); err == nil {
		t.Error("a function became JSON")
	}
}

// TestRefusedArgument: the error names the statement, once, and the argument; nothing is sent.
func TestRefusedArgument(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Add, uuid.NewString(), time.Second)
		op, ok := errors.AsType[*db.OpError](err)
		if !ok || op.Query != "seam.Add" || strings.Count(err.Error(), "seam.Add") != 1 || !strings.Contains(err.Error(), "argument 2") {
			t.Errorf("got %v", err)
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Add, uuid.NewString(), "\x00"); !errors.Is(err, db.ErrCheck) {
			t.Errorf("text with a NUL: %v", err)
		}
		w.holds(t)
	})
}

// TestRoundTrip: stored values come back the same on every engine.
func TestRoundTrip(t *testing.T) {
	type row struct {
		Agent   word
		Surface *word
		Subject *string
		Error   *word
		Inherit bool
		Attempt number
		Tokens  int64
		Cost    float64
		Input   json.RawMessage
		Result  *json.RawMessage
		Created time.Time
		Ended   *time.Time
	}
	summer := time.Date(2026, 7, 1, 13, 30, 0, 123456789, time.FixedZone("CEST", 2*3600))
	summerStored := time.Date(2026, 7, 1, 11, 30, 0, 123456000, time.UTC)
	for _, c := range []struct {
		name    string
		in, out row
	}{
		{
			"everything set",
			row{Agent: "Ä \"'\\ 🚦", Surface: new(word("hb")), Subject: new("s"), Error: new(word("")), Inherit: true, Attempt: 3, Tokens: 1 << 52,
				Cost: 0.000125, Input: json.RawMessage(`{"a":[1,null,"ü"]}`), Result: new(json.RawMessage(`"text"`)), Created: summer, Ended: &summer},
			row{Agent: "Ä \"'\\ 🚦", Surface: new(word("hb")), Subject: new("s"), Error: new(word("")), Inherit: true, Attempt: 3, Tokens: 1 << 52,
				Cost: 0.000125, Input: json.RawMessage(`{"a":[1,null,"ü"]}`), Result: new(json.RawMessage(`"text"`)), Created: summerStored, Ended: &summerStored},
		},
		{
			"nothing that need not be",
			row{Agent: "a", Surface: new(word("hb")), Attempt: -1, Input: json.RawMessage(`null`), Created: time.UnixMicro(0)},
			row{Agent: "a", Surface: new(word("hb")), Attempt: -1, Input: json.RawMessage(`null`), Created: time.UnixMicro(0).UTC()},
		},
		{
			"before the epoch",
			row{Agent: "a", Surface: new(word("hb")), Input: json.RawMessage(`[]`), Created: time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC)},
			row{Agent: "a", Surface: new(word("hb")), Input: json.RawMessage(`[]`), Created: time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				id := uuid.NewString()
				in := c.in
				_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Store, id, in.Agent, in.Surface, in.Subject, in.Error,
					in.Inherit, in.Attempt, in.Tokens, in.Cost, in.Input, in.Result, in.Created, in.Ended)
				if err != nil {
					t.Fatal(err)
				}
				var got row
				err = w.DB.One(t.Context(), w.Workspace, []any{&got.Agent, &got.Surface, &got.Subject, &got.Error,
					&got.Inherit, &got.Attempt, &got.Tokens, &got.Cost, &got.Input, &got.Result, &got.Created, &got.Ended}, w.q.Fetch, id)
				if err != nil {
					t.Fatal(err)
				}
				got.Input = compact(t, got.Input)
				if got.Result != nil {
					*got.Result = compact(t, *got.Result)
				}
				if !reflect.DeepEqual(got, c.out) {
					t.Errorf("got  %+v\nwant %+v", got, c.out)
				}
				if got.Created.Location() != time.UTC || got.Ended != nil && got.Ended.Location() != time.UTC {
					t.Error("a time is not in UTC")
				}
			})
		})
	}
}

// compact removes the spaces that Postgres adds to JSON.
func compact(t testing.TB, text json.RawMessage) json.RawMessage {
	t.Helper()
	var v any
	err := json.Unmarshal(text, &v)
	if err == nil {
		text, err = json.Marshal(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestScanRefusesNull: an unexpected null is an error on every engine, but not an error of the
// connection.
func TestScanRefusesNull(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.add(t, "a")
		var agent, surface, subject string
		var message *string
		var rest [8]any
		dest := []any{&agent, &surface, &subject, &message}
		for i := range rest {
			dest = append(dest, &rest[i])
		}
		err := w.DB.One(t.Context(), w.Workspace, dest, w.q.Fetch, id)
		if err == nil || errors.Is(err, db.ErrUnavailable) || errors.Is(err, db.ErrUncertain) {
			t.Errorf("got %v", err)
		}
		var short string
		err = w.DB.One(t.Context(), w.Workspace, []any{&short, &short}, w.q.Agent, id)
		if err == nil || errors.Is(err, db.ErrUnavailable) || errors.Is(err, db.ErrUncertain) {
			t.Errorf("too many destinations: %v", err)
		}
		w.holds(t, "a") // the connection still works
	})
}

// TestOptional: a column that is null leaves its destination as it is; a row reader appends the rows.
func TestOptional(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ended := time.Date(2026, 7, 1, 11, 30, 0, 0, time.UTC)
		store := func(subject *string, message *word, result *json.RawMessage, at *time.Time) string {
			id := uuid.NewString()
			_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Store, id, "a", "hb", subject, message, false, 1, 0, 0.5,
				json.RawMessage(`{}`), result, ended, at)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		type row struct {
			Subject string
			Error   word
			Attempt number
			Result  json.RawMessage
			Ended   time.Time
		}
		rows := []row{{Subject: "first"}}
		var ignored struct {
			agent, surface word
			inherit        bool
			tokens         int64
			cost           float64
			input          json.RawMessage
			created        time.Time
		}
		read := db.Append(&rows, func(scan db.Scan, r *row) error {
			r.Subject, r.Error, r.Ended = "as it was", "as it was", ended.Add(time.Hour)
			return scan(&ignored.agent, &ignored.surface, db.Optional(&r.Subject), db.Optional(&r.Error), &ignored.inherit,
				db.Optional(&r.Attempt), &ignored.tokens, &ignored.cost, &ignored.input, db.Optional(&r.Result), &ignored.created,
				db.Optional(&r.Ended))
		})
		full, empty := store(new("s"), new(word("")), new(json.RawMessage(`[1]`)), &ended), store(nil, nil, nil, nil)
		for _, id := range []string{full, empty} {
			if err := w.DB.Each(t.Context(), w.Workspace, read, w.q.Fetch, id); err != nil {
				t.Fatal(err)
			}
		}
		for i := range rows {
			if len(rows[i].Result) > 0 {
				rows[i].Result = compact(t, rows[i].Result)
			}
		}
		want := []row{{Subject: "first"}, {"s", "", 1, json.RawMessage(`[1]`), ended}, {"as it was", "as it was", 1, nil, ended.Add(time.Hour)}}
		if !reflect.DeepEqual(rows, want) {
			t.Errorf("got  %+v\nwant %+v", rows, want)
		}
		// The same destinations serve several rows.
		r := row{Subject: "as it was"}
		dest := []any{&ignored.agent, &ignored.surface, db.Optional(&r.Subject), db.Optional(&r.Error), &ignored.inherit, &r.Attempt,
			&ignored.tokens, &ignored.cost, &ignored.input, db.Optional(&r.Result), &ignored.created, db.Optional(&r.Ended)}
		for id, want := range map[string]string{full: "s", empty: "as it was"} {
			for range 2 {
				r.Subject = "as it was"
				if err := w.DB.One(t.Context(), w.Workspace, dest, w.q.Fetch, id); err != nil || r.Subject != want {
					t.Errorf("%q, want %q, %v", r.Subject, want, err)
				}
			}
		}
	})
}

func TestParametersOutOfOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.add(t, "before")
		var message, agent, subject string
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			return tx.One(ctx, []any{&message, &agent, &subject}, w.q.Shuffled, id, "third", "fourth")
		})
		if err != nil || message != "fourth" || agent != "third" || subject != "third" {
			t.Errorf("got %q, %q, %q, %v", message, agent, subject, err)
		}
	})
}

package postgres

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// TestParametersAreThoseOfPgx: each argument has the text that pgx gives it.
func TestParametersAreThoseOfPgx(t *testing.T) {
	types := pgtype.NewMap()
	for _, a := range []any{
		nil, "", "a\nb'\\", "ä", int64(0), int64(math.MinInt64), int64(math.MaxInt64), 0.0, -0.5, 1e300, 1e-300, 1.0 / 3, math.NaN(),
		true, false, []byte{}, []byte("\x00\xff a"),
		time.Time{}, time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.FixedZone("", 5*3600+1800)), time.Date(12026, 1, 2, 3, 4, 5, 0, time.UTC),
		time.Date(0, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(-3, 1, 2, 3, 4, 5, 6000, time.UTC),
	} {
		want, err := types.Encode(0, pgtype.TextFormatCode, a, []byte{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := parameters([]any{a})
		if err != nil || string(got[0]) != string(want) || (got[0] == nil) != (want == nil) {
			t.Errorf("%#v has the text %q, want %q (%v)", a, got, want, err)
		}
	}
	if _, err := parameters([]any{"a", 7}); err == nil || !strings.Contains(err.Error(), "argument 2 has type int") {
		t.Errorf("an int: %v", err)
	}
}

type (
	word   string
	number int32
)

// TestScanIsThatOfPgx: each destination has the value that pgx gives it, and what pgx refuses is refused.
func TestScanIsThatOfPgx(t *testing.T) {
	types := pgtype.NewMap()
	types.RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
	for _, c := range []struct {
		oid  uint32
		text string
		into []any
	}{
		{pgtype.TextOID, "", []any{new(string), new(word), new(*string), new(*word), new([]byte)}},
		{pgtype.TextOID, `\x01`, []any{new(string), new([]byte)}},
		{pgtype.UUIDOID, "00000000-0000-7000-8000-000000000001", []any{new(string), new(word), new(*string)}},
		{pgtype.Int8OID, "-9223372036854775808", []any{new(int64), new(int), new(*int64), new(int32), new(number), new(uint64), new(string)}},
		{pgtype.Int4OID, "7", []any{new(int64), new(int), new(int8), new(number), new(*number), new(uint32), new(float64), new(time.Time)}},
		{pgtype.NumericOID, "12", []any{new(int64), new(int), new(*int), new(float64)}},
		{pgtype.NumericOID, "12.00", []any{new(int64), new(uint8), new(float64)}},
		{pgtype.NumericOID, "12.5", []any{new(int64), new(float64), new(*float64)}},
		{pgtype.Float8OID, "0.1", []any{new(float64), new(*float64), new(int64)}},
		{pgtype.Float8OID, "Infinity", []any{new(float64)}},
		{pgtype.BoolOID, "t", []any{new(bool), new(*bool)}},
		{pgtype.BoolOID, "f", []any{new(bool), new(*bool), new(int64)}},
		{pgtype.JSONBOID, `{"a": [1]}`, []any{new(json.RawMessage), new(*json.RawMessage), new(string), new([]byte)}},
		{pgtype.ByteaOID, `\x00ff`, []any{new([]byte), new(*[]byte)}},
		{pgtype.ByteaOID, `\x`, []any{new([]byte)}},
		{pgtype.TimestamptzOID, "2026-11-20 12:00:00+00", []any{new(time.Time), new(*time.Time), new(int64), new(bool)}},
		{pgtype.TimestamptzOID, "2026-11-20 12:00:00.123456-08", []any{new(time.Time)}},
		{pgtype.TimestamptzOID, "2026-11-20 12:00:00.1+05:30", []any{new(time.Time)}},
		{pgtype.TimestamptzOID, "1883-11-18 12:00:00-07:52:58", []any{new(time.Time)}},
		{pgtype.TimestamptzOID, "0001-01-01 00:00:00+00", []any{new(time.Time)}},
		{pgtype.TimestamptzOID, "0001-02-29 00:00:00+00 BC", []any{new(time.Time)}},
		{pgtype.TimestamptzOID, "0005-12-31 23:00:00.5-01:30 BC", []any{new(time.Time)}},
		{pgtype.TimestamptzOID, "10000-01-01 00:00:00+00", []any{new(time.Time)}},
		{pgtype.TimestamptzOID, "infinity", []any{new(time.Time)}},
		{pgtype.TimestampOID, "2026-11-20 12:00:00.5", []any{new(time.Time)}},
		{pgtype.DateOID, "2026-11-20", []any{new(time.Time)}},
	} {
		for _, text := range [][]byte{[]byte(c.text), nil} { // and null
			for _, into := range c.into {
				got := reflect.New(reflect.TypeOf(into).Elem())
				want := reflect.New(reflect.TypeOf(into).Elem())
				refused := types.Scan(c.oid, pgtype.TextFormatCode, text, want.Interface())
				err := scan([]pgconn.FieldDescription{{Name: "c", DataTypeOID: c.oid}}, [][]byte{text}, []any{got.Interface()})
				if (err != nil) != (refused != nil) {
					t.Errorf("%q of type %d into %T: %v, and pgx says %v", text, c.oid, into, err, refused)
				} else if err == nil && !reflect.DeepEqual(got.Elem().Interface(), want.Elem().Interface()) {
					t.Errorf("%q of type %d into %T is %#v, and pgx makes it %#v", text, c.oid, into, got.Elem(), want.Elem())
				}
			}
		}
	}
	if err := scan(nil, make([][]byte, 2), []any{new(string)}); err == nil {
		t.Error("two columns went into one destination")
	}
	if err := scan([]pgconn.FieldDescription{{Name: "c"}}, [][]byte{[]byte("a")}, []any{new([]string)}); err == nil || !strings.Contains(err.Error(), "column c") {
		t.Errorf("a slice of strings: %v", err)
	}
}

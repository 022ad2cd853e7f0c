package postgres

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Arguments and columns cross the wire as text. Package db allows so few Go types that these functions
// replace pgx's conversions, which make up a tenth of a function's binary.

// parameters returns the texts of arguments as [db.Argument] returns them; nil is null.
func parameters(args []any) ([][]byte, error) {
	texts := make([][]byte, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case nil:
		case string:
			texts[i] = []byte(a)
		case int64:
			texts[i] = strconv.AppendInt(nil, a, 10)
		case float64:
			texts[i] = strconv.AppendFloat(nil, a, 'f', -1, 64)
		case bool:
			texts[i] = strconv.AppendBool(nil, a)[:1]
		case []byte:
			texts[i] = hex.AppendEncode([]byte(`\x`), a)
		case time.Time:
			texts[i] = moment(a.UTC().Truncate(time.Microsecond))
		default:
			return nil, fmt.Errorf("argument %d has type %T", i+1, a)
		}
	}
	return texts, nil
}

// moment returns the text of a time. Postgres counts no year 0: before the year 1 is 1 BC.
func moment(t time.Time) []byte {
	year, era := t.Year(), ""
	if year <= 0 {
		year, era = 1-year, " BC"
	}
	return fmt.Appendf(nil, "%04d-%s%s", year, t.Format("01-02 15:04:05.999999Z07:00"), era)
}

// scan decodes a row into dest, as [db.Scan] says.
func scan(columns []pgconn.FieldDescription, row [][]byte, dest []any) error {
	if len(row) != len(dest) {
		return fmt.Errorf("scan a row: it has %d columns, and there are %d destinations", len(row), len(dest))
	}
	for i, d := range dest {
		v := reflect.ValueOf(d)
		if v.Kind() != reflect.Pointer || v.IsNil() {
			return fmt.Errorf("scan column %s: a destination is a pointer, and not %T", columns[i].Name, d)
		}
		if err := decode(row[i], columns[i].DataTypeOID, v.Elem()); err != nil {
			return fmt.Errorf("scan column %s into %T: %w", columns[i].Name, d, err)
		}
	}
	return nil
}

// bytea is the OID of the type whose text is not its value.
const bytea = 17

func decode(text []byte, oid uint32, v reflect.Value) (err error) {
	switch v.Kind() {
	case reflect.Pointer:
		if text == nil {
			v.SetZero()
			return nil
		}
		target := reflect.New(v.Type().Elem())
		v.Set(target)
		return decode(text, oid, target.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return errors.ErrUnsupported
		}
		return decodeBytes(text, oid, v)
	}
	if text == nil {
		return errors.New("it is null")
	}
	s := string(text)
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(s)
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(s, 10, v.Type().Bits())
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(s, 10, v.Type().Bits())
		v.SetUint(n)
	case reflect.Float32, reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(s, v.Type().Bits())
		v.SetFloat(f)
	default:
		at, ok := v.Addr().Interface().(*time.Time)
		if !ok {
			return errors.ErrUnsupported
		}
		*at, err = instant(s)
	}
	return err
}

func decodeBytes(text []byte, oid uint32, v reflect.Value) error {
	switch {
	case text == nil:
		v.SetZero()
		return nil
	case oid != bytea:
		v.SetBytes(append([]byte{}, text...))
		return nil
	}
	digits, ok := strings.CutPrefix(string(text), `\x`)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return errors.New("it is not hexadecimal")
	}
	v.SetBytes(raw)
	return nil
}

// instants are the forms of times, and of dates, in the order of their frequency.
var instants = []string{
	"2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07:00:00",
	"2006-01-02 15:04:05.999999999", time.DateOnly,
}

func instant(s string) (time.Time, error) {
	years := 0
	text, bc := strings.CutSuffix(s, " BC")
	digits, rest, _ := strings.Cut(text, "-")
	if bc || len(digits) > 4 { // package time reads no such years: read another one with the same days
		year, _ := strconv.Atoi(digits)
		if bc {
			year = 1 - year
		}
		like := 2000 + (year%400+400)%400
		years, text = year-like, fmt.Sprintf("%d-%s", like, rest)
	}
	for _, layout := range instants {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().AddDate(years, 0, 0), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time", s)
}

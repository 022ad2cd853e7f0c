package db

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// JSON encodes v as the text of a JSON argument. Engines take JSON as text;
// arrays travel as JSON too and are taken apart in SQL.
func JSON(v any) (string, error) {
	if raw, ok := v.(json.RawMessage); ok {
		if len(raw) == 0 {
			return "null", nil
		}
		return string(raw), nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode JSON argument: %w", err)
	}
	return string(text), nil
}

// Argument turns a Go value into one of those every engine takes: nil, string,
// int64, float64, bool, []byte or time.Time. Named strings and integers, and
// pointers to any of these, are taken as what they are underneath;
// json.RawMessage as text (empty: null); the empty value stays a value, null is
// said with nil.
func Argument(v any) (any, error) {
	switch v := v.(type) {
	case nil, string, int64, float64, bool, []byte:
		return v, nil
	case int:
		return int64(v), nil
	case time.Time:
		return v.UTC(), nil
	case json.RawMessage:
		if len(v) == 0 {
			return nil, nil
		}
		return string(v), nil
	case time.Duration:
		return nil, fmt.Errorf("argument of type time.Duration: say the unit, for example d.Milliseconds()")
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer:
		if r.IsNil() {
			return nil, nil
		}
		return Argument(r.Elem().Interface())
	case reflect.String:
		return r.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int(), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return int64(r.Uint()), nil
	case reflect.Bool:
		return r.Bool(), nil
	case reflect.Float32:
		return r.Float(), nil
	default:
		return nil, fmt.Errorf("argument of type %T: no engine takes it", v)
	}
}

// Arguments are op's arguments for an engine, the workspace first unless the
// query is global.
func (op *Op) Arguments(ws Workspace) ([]any, error) {
	args := make([]any, 0, len(op.Args)+1)
	if !op.Query.global {
		args = append(args, string(ws))
	}
	for i, v := range op.Args {
		a, err := Argument(v)
		if err != nil {
			return nil, &OpError{Query: op.Query.name, Err: fmt.Errorf("argument %d: %w", i+1, err)}
		}
		args = append(args, a)
	}
	return args, nil
}

// Null is v, or nil when v is its type's zero value, for columns where empty
// means absent.
func Null[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

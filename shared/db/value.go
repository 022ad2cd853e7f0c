package db

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// JSON encodes v as the text of a JSON argument. Engines take JSON as text. Arrays are passed as
// JSON too, and SQL unpacks them.
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

// Encode is the JSON of one of our own types, which always has one.
func Encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(text)
}

// List is a list of texts as the text of a JSON argument. A nil list becomes an empty one.
func List[T ~string](items []T) string { return Encode(append([]T{}, items...)) }

// Argument converts a Go value to a type that every engine takes: nil, string, int64, float64,
// bool, []byte or time.Time. It accepts named strings, numbers and bools, and pointers to any of
// these. A json.RawMessage becomes text (empty: null). An empty value stays a value; nil means
// null. For text that Postgres can't store, it returns [ErrCheck], on both engines.
func Argument(v any) (any, error) {
	switch v := v.(type) {
	case nil, int64, float64, bool:
		return v, nil
	case []byte:
		if v == nil {
			return nil, nil
		}
		return v, nil
	case string:
		return text(v)
	case int:
		return int64(v), nil
	case time.Time:
		return v.UTC(), nil
	case json.RawMessage:
		if len(v) == 0 {
			return nil, nil
		}
		return text(string(v))
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
		return text(r.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int(), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return int64(r.Uint()), nil
	case reflect.Bool:
		return r.Bool(), nil
	case reflect.Float32, reflect.Float64:
		return r.Float(), nil
	default:
		return nil, fmt.Errorf("argument of type %T: no engine takes it", v)
	}
}

func text(s string) (any, error) {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return nil, fmt.Errorf("%w: text that is not UTF-8 or holds a NUL", ErrCheck)
	}
	return s, nil
}

// Arguments returns op's arguments for an engine. The workspace comes first, unless the query is
// global.
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

// Patch sets to to the value that a patch has for it; nil: none.
func Patch[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Null returns v, or nil when v is the zero value of its type. Use it for columns in which null
// means absent.
func Null[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

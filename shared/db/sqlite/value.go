package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// bind converts an argument to what the file stores: times are integer microseconds of UTC, bools
// are 0 and 1.
func bind(v any) any {
	switch v := v.(type) {
	case time.Time:
		return v.UnixMicro()
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	}
	return v
}

// scanner wraps the destinations that database/sql can't fill from what the file stores.
func scanner(rows *sql.Rows) db.Scan {
	return func(dest ...any) error {
		wrapped := make([]any, len(dest))
		for i, d := range dest {
			switch d := d.(type) {
			case *time.Time:
				wrapped[i] = moment{set: func(t *time.Time) error {
					if t == nil {
						return fmt.Errorf("null where a time is wanted")
					}
					*d = *t
					return nil
				}}
			case **time.Time:
				wrapped[i] = moment{set: func(t *time.Time) error { *d = t; return nil }}
			case *json.RawMessage:
				wrapped[i] = (*[]byte)(d)
			case **json.RawMessage:
				wrapped[i] = document{d}
			default:
				wrapped[i] = d
			}
		}
		return rows.Scan(wrapped...)
	}
}

// document reads JSON that may be null.
type document struct{ dest **json.RawMessage }

// Scan implements sql.Scanner.
func (d document) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		*d.dest = nil
		return nil
	case string:
		*d.dest = new(json.RawMessage(src))
		return nil
	case []byte:
		*d.dest = new(json.RawMessage(bytes.Clone(src)))
		return nil
	}
	return fmt.Errorf("%T where JSON is wanted", src)
}

// moment reads a time stored as microseconds.
type moment struct{ set func(*time.Time) error }

// Scan implements sql.Scanner.
func (m moment) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		return m.set(nil)
	case int64:
		t := time.UnixMicro(src).UTC()
		return m.set(&t)
	case time.Time:
		t := src.UTC()
		return m.set(&t)
	}
	return fmt.Errorf("%T where a time is wanted", src)
}

package db

import (
	"fmt"
	"slices"
)

// Append returns a reader of rows that appends a T to into for each row. read scans one row.
func Append[T any](into *[]T, read func(scan Scan, row *T) error) func(Scan) error {
	return func(scan Scan) error {
		var row T
		if err := read(scan, &row); err != nil {
			return err
		}
		*into = append(*into, row)
		return nil
	}
}

// Column returns a reader of rows of one column that appends each value to into.
func Column[T any](into *[]T) func(Scan) error {
	return Append(into, func(scan Scan, v *T) error { return scan(v) })
}

// Put returns a reader of rows that puts a V into a map for each row, under its key.
func Put[K comparable, V any](into map[K]V, read func(scan Scan, key *K, row *V) error) func(Scan) error {
	return func(scan Scan) error {
		var key K
		var row V
		if err := read(scan, &key, &row); err != nil {
			return err
		}
		into[key] = row
		return nil
	}
}

// First returns the first row, and none when there is no row.
func First[T any](rows []T, none error) (T, error) {
	if len(rows) == 0 {
		return *new(T), none
	}
	return rows[0], nil
}

// Found is [First] of the rows that a statement returned with err. doing says in errors what it was for.
func Found[T any](rows []T, err error, doing string, none error) (T, error) {
	if err != nil {
		return *new(T), fmt.Errorf("%s: %w", doing, err)
	}
	return First(rows, none)
}

// Optional returns a destination for a column that may be null. Null leaves into as it is.
func Optional[T any](into *T) any { return &optional[T]{into: into} }

// optional scans a column into scanned, which is nil for null.
type optional[T any] struct{ into, scanned *T }

func (o *optional[T]) dest() any { return &o.scanned }

func (o *optional[T]) done() {
	if o.scanned != nil {
		*o.into = *o.scanned
	}
}

// withOptional returns a scan that also accepts the destinations of [Optional].
func (s Scan) withOptional() Scan {
	return func(dest ...any) error {
		own := slices.Clone(dest) // the next row is scanned into the same destinations
		var done []func()
		for i, d := range dest {
			if o, ok := d.(interface {
				dest() any
				done()
			}); ok {
				own[i] = o.dest()
				done = append(done, o.done)
			}
		}
		if err := s(own...); err != nil {
			return err
		}
		for _, set := range done {
			set()
		}
		return nil
	}
}

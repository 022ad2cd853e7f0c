package db

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// Dialect names the SQL of an engine.
type Dialect string

// The two dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// A Query is a named statement, with its text for each dialect.
type Query struct {
	name     string
	postgres string
	sqlite   string
	global   bool
}

// Name returns the query's name, with its file as the prefix: "lane.Acquire".
func (q Query) Name() string { return q.name }

// Global reports whether the query belongs to no single workspace. Then $1 is the caller's first
// argument.
func (q Query) Global() bool { return q.global }

// Text returns the statement for a dialect.
func (q Query) Text(d Dialect) string {
	if d == SQLite {
		return q.sqlite
	}
	return q.postgres
}

// Load fills the Query fields of the struct that queries points to, from the *.sql files at the
// root of fsys. Every field must have a query and every query a field.
func Load(fsys fs.FS, queries any) error {
	parsed, err := Parse(fsys)
	if err != nil {
		return err
	}
	target := reflect.ValueOf(queries)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("load queries: want a pointer to a struct, got %T", queries)
	}
	target = target.Elem()
	var errs []error
	by := make(map[string]int, len(parsed))
	for i, q := range slices.Backward(parsed) { // the first of a name counts
		by[q.name[strings.LastIndexByte(q.name, '.')+1:]] = i
	}
	for i := range target.NumField() {
		field := target.Type().Field(i)
		name := field.Name
		if !field.IsExported() || field.Type != reflect.TypeFor[Query]() {
			errs = append(errs, fmt.Errorf("load %s: field %s is not an exported Query", target.Type(), name))
			continue
		}
		j, known := by[name]
		if !known {
			errs = append(errs, fmt.Errorf("load %s: field %s has no query", target.Type(), name))
			continue
		}
		target.Field(i).Set(reflect.ValueOf(parsed[j]))
		parsed[j].name = "" // it has its field
	}
	for _, q := range parsed {
		if q.name != "" {
			errs = append(errs, fmt.Errorf("load %s: query %s has no field", target.Type(), q.name))
		}
	}
	return errors.Join(errs...)
}

// Parse reads the *.sql files at the root of fsys and checks their rules. A query is in the shared
// file or in both engine files. An engine file says why it exists. A query binds its workspace as
// $1, or says why it is global. What several queries share is a part, under a line "-- part: Word"
// before them: @Word stands for it. The engine files know the parts of their shared file.
func Parse(fsys fs.FS) ([]Query, error) {
	files, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("parse queries: %w", err)
	}
	p := parser{queries: map[string]*Query{}, parts: map[string]map[string]string{}}
	slices.SortStableFunc(files, func(a, b string) int { return strings.Count(a, ".") - strings.Count(b, ".") }) // shared files first
	for _, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("parse queries: %w", err)
		}
		p.file(file, string(text))
	}
	out := make([]Query, 0, len(p.order))
	for _, name := range p.order {
		q := p.queries[name]
		if q.postgres == "" || q.sqlite == "" {
			p.fail("%s is in one engine's file only", name)
		}
		out = append(out, *q)
	}
	return out, errors.Join(p.errs...)
}

type parser struct {
	queries map[string]*Query
	parts   map[string]map[string]string // of shared files, by their base
	order   []string
	errs    []error
}

func (p *parser) fail(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("parse queries: "+format, args...))
}

func (p *parser) file(file, text string) {
	stem := strings.TrimSuffix(path.Base(file), ".sql")
	base, engine, split := strings.Cut(stem, ".")
	if split && !strings.HasPrefix(text, "-- why: ") {
		p.fail("%s: the first line must say \"-- why: …\"", file)
	}
	found, attempts := sections(text)
	if len(found) != attempts || len(found) == 0 {
		p.fail("%s: a query begins with a line \"-- name: Word\"", file)
	}
	parts := map[string]string{}
	maps.Copy(parts, p.parts[base])
	if !split {
		p.parts[base] = parts
	}
	for _, s := range found {
		name, body := base+"."+s.name, expand(strings.TrimSuffix(strings.TrimSpace(s.body), ";"), parts)
		if s.part {
			if _, known := parts[s.name]; known {
				p.fail("%s: part %s is there twice", file, s.name)
			}
			parts[s.name] = body
			continue
		}
		if !s.global && !bindsWorkspace(body) {
			p.fail("%s: %s neither binds its workspace as $1 nor says \"-- global: why\"", file, name)
		}
		p.add(file, name, Dialect(engine), split, s.global, body)
	}
}

func (p *parser) add(file, name string, engine Dialect, split, global bool, body string) {
	q, known := p.queries[name]
	if !known {
		q = &Query{name: name, global: global}
		p.queries[name] = q
		p.order = append(p.order, name)
	}
	if q.global != global {
		p.fail("%s: %s is global in one engine only", file, name)
	}
	set := func(text *string) {
		if *text != "" {
			p.fail("%s: %s is there twice", file, name)
		}
		*text = body
	}
	switch {
	case !split:
		set(&q.postgres)
		set(&q.sqlite)
	case engine == Postgres:
		set(&q.postgres)
	case engine == SQLite:
		set(&q.sqlite)
	default:
		p.fail("%s: unknown engine %q", file, engine)
	}
}

package db_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// The rules for a file as regular expressions. Compiling them is too slow for every cold start.
var (
	heading     = regexp.MustCompile(`(?m)^-- (name|part): (\w+)\s*$`)
	headingLike = regexp.MustCompile(`(?mi)^\s*--\s*(name|part)\s*:`)
	usedPart    = regexp.MustCompile(`@(\w+)`)
	globalWhy   = regexp.MustCompile(`(?m)^-- global: \S`)
	workspace   = regexp.MustCompile(`\$1\b`)
	comment     = regexp.MustCompile(`(?m)^\s*--.*$\n?`)
)

// byExpression parses the file a.sql with the expressions above. It returns the texts by name, and the
// errors in the order in which Parse returns them.
func byExpression(text string) (texts map[string]string, global map[string]bool, wrong []string) {
	texts, global = map[string]string{}, map[string]bool{}
	heads := heading.FindAllStringSubmatchIndex(text, -1)
	if len(heads) != len(headingLike.FindAllString(text, -1)) || len(heads) == 0 {
		wrong = append(wrong, `parse queries: a.sql: a query begins with a line "-- name: Word"`)
	}
	parts := map[string]string{}
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name, body := "a."+text[h[4]:h[5]], text[h[1]:end]
		isGlobal := globalWhy.MatchString(body)
		body = strings.TrimSuffix(strings.TrimSpace(comment.ReplaceAllString(body, "")), ";")
		body = usedPart.ReplaceAllStringFunc(body, func(use string) string {
			if part, known := parts[use[1:]]; known {
				return part
			}
			return use
		})
		if text[h[2]:h[3]] == "part" {
			if _, twice := parts[name[2:]]; twice {
				return nil, nil, nil
			}
			parts[name[2:]] = body
			continue
		}
		if !isGlobal && !workspace.MatchString(body) {
			wrong = append(wrong, "parse queries: a.sql: "+name+` neither binds its workspace as $1 nor says "-- global: why"`)
		}
		if _, twice := texts[name]; twice {
			return nil, nil, nil // another test checks which of the two is reported
		}
		texts[name], global[name] = body, isGlobal
	}
	return texts, global, wrong
}

// sameAsExpressions compares the result of Parse with that of the expressions.
func sameAsExpressions(t *testing.T, text string) {
	t.Helper()
	texts, global, wrong := byExpression(text)
	if texts == nil {
		return
	}
	got, err := db.Parse(sources{"a.sql": text}.fs())
	for name, body := range texts {
		if body == "" {
			wrong = append(wrong, "parse queries: "+name+" is in one engine's file only")
		}
	}
	var told []string
	for _, line := range strings.Split(textOf(err), "\n") {
		if line != "" {
			told = append(told, line)
		}
	}
	if len(told) != len(wrong) || len(wrong) < 2 && strings.Join(told, "\n") != strings.Join(wrong, "\n") {
		t.Fatalf("%q: told of\n%s\nwant\n%s", text, strings.Join(told, "\n"), strings.Join(wrong, "\n"))
	}
	for _, line := range wrong {
		if !strings.Contains(textOf(err), line) {
			t.Fatalf("%q: not told of %s", text, line)
		}
	}
	if len(got) != len(texts) {
		t.Fatalf("%q: %d queries, want %d", text, len(got), len(texts))
	}
	for _, q := range got {
		want, ok := texts[q.Name()]
		if !ok || q.Text(db.SQLite) != want || q.Text(db.Postgres) != want || q.Global() != global[q.Name()] {
			t.Fatalf("%q: %s is %q (global %t), want %q (global %t)",
				text, q.Name(), q.Text(db.SQLite), q.Global(), want, global[q.Name()])
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// files are texts at the edge of the rules.
var files = []string{
	"-- name: Get\nSELECT $1;\n",
	"-- About.\n-- name: Get \t\r\n\n\n-- More.\n\n  -- And more.\nSELECT a, -- about a\n\n\n -- inside\n b $1;;\n\n-- name: B\n$1",
	"-- name: Get\n--\nname::text $1",
	"-- NAME : Get\n-- name: Get\n$1",
	"-- name: Get\n-- global: why\n-- name: Other\n-- global: \n$10 $1_ $1a",
	"-- name: Get\n -- global: why\n$1.",
	"-- name: Gët\n$1",
	"-- name: Get\n-- name:Other\n--name\n:\n$1",
	"-- name: \n$1",
	"-- name: Get",
	"--",
	"\f-- name: Get\n\v\n-- x\n\u00a0$1\u00a0",
	"-- part: A\n $1, b;\n-- part: B\n-- global: x\n@A c @ @B @\n-- name: Get\n@B@A @Ab @\n-- part : C\n",
	"-- part: A\n@A",
	"-- name: Get\n\xff-- \xff\n-- \xff\n$1\xff",
}

func TestSectionsAreWhatTheExpressionsSay(t *testing.T) {
	for _, text := range files {
		sameAsExpressions(t, text)
	}
	shipped := 0
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".sql" {
			return err
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		shipped++
		sameAsExpressions(t, string(raw))
		return nil
	})
	if err != nil || shipped < 20 {
		t.Fatalf("%d files of SQL were read: %v", shipped, err)
	}
}

func FuzzSections(f *testing.F) {
	for _, text := range files {
		f.Add(text)
	}
	f.Fuzz(sameAsExpressions)
}

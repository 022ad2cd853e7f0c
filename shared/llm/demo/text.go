package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cut returns at most n characters of s.
func cut(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// short returns s on one line and at most n characters long.
func short(s string, n int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimSpace(cut(s, n-1)) + "…"
}

// describe says how much a tool returned, without quoting it. The result may be untrusted text,
// which must not get into a plan.
func describe(result string) string {
	var data any
	if json.Unmarshal([]byte(result), &data) != nil {
		return count(utf8.RuneCountInString(result), "character")
	}
	switch data := data.(type) {
	case []any:
		return count(len(data), "entry")
	case map[string]any:
		lists, entries := 0, 0
		for _, v := range data {
			if l, ok := v.([]any); ok {
				lists, entries = lists+1, len(l)
			}
		}
		if lists == 1 {
			return count(entries, "entry")
		}
		return count(len(data), "field")
	}
	return "one value"
}

func count(n int, of string) string {
	switch {
	case n == 1:
		return "1 " + of
	case strings.HasSuffix(of, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(of, "y"))
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// sameName reports whether two names are equal except for case and separators.
func sameName(a, b string) bool {
	return a == b || bare(a) != "" && bare(a) == bare(b)
}

func bare(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// distance returns the number of letters to change, add or remove between two names.
func distance(a, b string) int {
	x, y := []rune(cut(bare(a), 64)), []rune(cut(bare(b), 64))
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			d := diagonal
			if x[i] != y[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}

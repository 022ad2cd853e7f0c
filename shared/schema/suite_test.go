package schema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestTheSuite runs the official test suite. Supported keywords follow the standard. Schemas with
// others are refused by Compile.
func TestTheSuite(t *testing.T) {
	files, err := filepath.Glob("testdata/suite/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	right, refused := 0, 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(raw, &groups); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range groups {
			s, err := compile(g.Schema, false) // formats are only annotations in the suite
			if err != nil {
				refused += len(g.Tests)
				continue
			}
			for _, test := range g.Tests {
				v, err := Decode(test.Data)
				if err != nil {
					t.Fatal(err)
				}
				wrong, err := s.Check(t.Context(), v)
				if err != nil || (len(wrong) == 0) != test.Valid {
					t.Errorf("%s, %s, %s: %v, %v", filepath.Base(file), g.Description, test.Description, wrong, err)
				}
				right++
			}
		}
	}
	t.Logf("%d judged, %d refused", right, refused)
	if right < leastJudged {
		t.Errorf("only %d are judged", right)
	}
}

const leastJudged = 700

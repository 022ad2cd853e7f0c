package main

import (
	"strings"
	"testing"
)

func TestTheGoalsAreMet(t *testing.T) {
	for _, what := range []string{"estimates", "routing"} {
		var out strings.Builder
		if err := run(t.Context(), &out, what, 14); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if !strings.Contains(out.String(), "all") {
			t.Errorf("%s prints %q", what, out.String())
		}
	}
	if err := run(t.Context(), nil, "else", 1); err == nil {
		t.Error("anything is measured")
	}
}

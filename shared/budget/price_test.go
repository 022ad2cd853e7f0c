package budget_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

func TestAModelCostsByTheLongestNameItBeginsWith(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		u := llm.Usage{PromptTokens: 1000, CompletionTokens: 100, CacheReadTokens: 10_000, CacheWriteTokens: 1000}
		const haiku, sonnet, opus = 800 + 400 + 800 + 1000, 3000 + 1500 + 3000 + 3750, 15_000 + 7500 + 15_000 + 18_750
		for model, want := range map[string]int64{
			"claude-3-5-haiku":                                  haiku,
			"claude-3-5-haiku-20241022":                         haiku,
			"us.anthropic.claude-3-5-haiku-20241022-v1:0":       haiku,
			"claude-sonnet-4":                                   sonnet,
			"claude-sonnet-4-5":                                 sonnet,
			"us.anthropic.claude-sonnet-4-20250514-v1:0":        sonnet,
			"arn:aws:bedrock:x/eu.anthropic.claude-sonnet-4-v1": sonnet,
			"anthropic/Claude-Sonnet-4":                         sonnet,
			"claude-opus-4@20250514":                            opus,
			"claude-sonnet-45":                                  -1,
			"claude-sonnet-4.5":                                 -1,
			"claude-sonnet":                                     -1,
			"not-claude-sonnet-4":                               -1,
			"gpt-4.1":                                           -1,
			"":                                                  -1,
		} {
			got, known, err := w.s.Cost(t.Context(), model, u)
			if err != nil || known != (want >= 0) || got != max(0, want) {
				t.Errorf("%s costs %d (known: %v, %v), want %d", model, got, known, err, want)
			}
		}
		for _, c := range []struct {
			u    llm.Usage
			want int64
		}{
			{llm.Usage{}, 0},
			{llm.Usage{CacheReadTokens: 1}, 1}, // 0.3, rounded up
			{llm.Usage{PromptTokens: -5}, 0},
			{llm.Usage{PromptTokens: 1 << 62, CompletionTokens: 1 << 62}, 1e9*3 + 1e9*15},
		} {
			if got, _, err := w.s.Cost(t.Context(), "claude-sonnet-4", c.u); err != nil || got != c.want {
				t.Errorf("%+v costs %d (%v), want %d", c.u, got, err, c.want)
			}
		}
	})
}

func TestPricesAreReadOnceAMinute(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		got := w.spent(func() {
			for range 5 {
				_, _, err := w.s.Cost(t.Context(), "claude-opus-4", llm.Usage{})
				check(t, err)
			}
			w.settle(t, w.reserve(t, request("a", 1)), 1)
		})
		if want := (db.Stats{Statements: 1 + 2 + 4, RoundTrips: 1 + 2 + 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestPlainName(t *testing.T) {
	for model, want := range map[string]string{
		"gpt-4.1": "gpt-4.1", "openai.gpt-oss-120b-1:0": "gpt-oss-120b-1:0", "us-gov.anthropic.x": "x", " A/B/c ": "c", "": "",
	} {
		if got := budget.PlainName(model); got != want {
			t.Errorf("%q is %q, want %q", model, got, want)
		}
	}
}

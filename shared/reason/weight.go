package reason

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// What requests weigh, in tokens: what the provider reported of the last one, and an
// estimate of what it left out and of what has come since.

const (
	// promptShare is the part of a model's window that a request may take; the rest is
	// the answer's.
	promptShare = 0.75
	// maxDensity bounds how many times more than estimated a provider's tokens count.
	maxDensity = 2.0
	// minLearned is the least from which that is learned, in tokens.
	minLearned = 200
	// minShare is the least that is left of a result, and cutNote what its mark takes.
	minShare = 50
	cutNote  = 20
)

// promptLimit is the most that a request may weigh; 0: nothing bounds it.
func (j Job) promptLimit() int { return int(promptShare * float64(j.Window)) }

// answerLimit is the most tokens of one answer: in a small window what requests leave, and of what
// the run may use what is left.
func (j Job) answerLimit(s *state) int {
	most := j.MaxTokens
	if j.Window > 0 {
		most = min(cmp.Or(most, usualAnswer), j.Window-j.promptLimit())
	}
	if j.Tokens != 0 {
		most = int(min(int64(cmp.Or(most, usualAnswer)), max(1, j.left(s))))
	}
	return most
}

// quarters is about how many quarters of a token a text takes: one a letter, and four
// what is beyond ASCII.
func quarters(text string) (n int) {
	for i := range len(text) {
		switch {
		case text[i] < 0x80:
			n++
		case text[i] >= 0xc0: // the first byte of a character
			n += 4
		}
	}
	return n
}

// tokens is about how many a text takes.
func tokens(text string) int { return quarters(text)/4 + 1 }

// head is the beginning of a text that takes so many tokens.
func head(text string, limit int) string {
	left := 4 * limit
	for i, r := range text {
		if left--; r >= 0x80 {
			left -= 3
		}
		if left < 0 {
			return text[:i]
		}
	}
	return text
}

// size is about how many tokens messages take.
func size(messages []llm.Message) int {
	n := 0
	for _, m := range messages {
		n += tokens(m.Text)
		if m.Opaque != nil {
			n += tokens(m.Opaque.Data)
		}
		for _, c := range m.Calls {
			n += tokens(c.Name + string(c.Arguments))
		}
		for _, r := range m.Results {
			n += tokens(r.Content)
		}
	}
	return n
}

// estimate is about how many tokens a request takes.
func estimate(r llm.Request) int {
	n := tokens(r.System) + size(r.Messages)
	for _, t := range r.Tools {
		n += tokens(t.Name + t.Description + string(t.Parameters))
	}
	return n
}

// measured is what an answer used, as it was reported; what the provider left out is
// estimated, and marked so.
func measured(request llm.Request, resp llm.Response) llm.Usage {
	u := resp.Usage
	if u.TotalTokens() == u.CompletionTokens {
		u.PromptTokens, u.Estimated = estimate(request), true
	}
	if u.CompletionTokens == 0 && (resp.Text != "" || len(resp.Calls) > 0) {
		u.CompletionTokens, u.Estimated = size([]llm.Message{resp.Message}), true
	}
	return u
}

// dense is an estimate as the provider would count it.
func (s *facts) dense(estimated int) int {
	return int(max(s.density, 1) * float64(estimated))
}

// learn compares what a provider counted for what has come since its last answer with
// what was estimated, and goes on from what it counted.
func (s *facts) learn(used llm.Usage) {
	if came := used.TotalTokens() - used.CompletionTokens - s.known; s.known > 0 && s.added >= minLearned && !used.Estimated {
		s.density = min(max(float64(came)/float64(s.added), 1), maxDensity)
	}
	s.known, s.added = used.TotalTokens(), 0
}

// weight is about how many tokens the next request takes.
func (s *facts) weight() int {
	if s.known == 0 {
		return s.dense(s.base + size(s.messages))
	}
	return s.known + s.dense(s.added)
}

// latest is the message with the results of the last answer; nil: it has none.
func (s *facts) latest() (int, *llm.Message) {
	for i := len(s.messages) - 1; i >= 0 && s.messages[i].Role != llm.RoleAssistant; i-- {
		if s.messages[i].Role == llm.RoleTool {
			return i, &s.messages[i]
		}
	}
	return 0, nil
}

// fit makes the conversation fit a limit. What stands before the last answer gives way to
// a summary where it takes more than half, or where that is demanded; the results of the
// last answer share what is then left. An Outcome ends the run.
func (r *Runner) fit(ctx context.Context, job Job, s *state, limit int, demanded bool) (*Outcome, error) {
	if limit == 0 || s.weight() <= limit {
		return nil, nil //nolint:nilnil // the run goes on
	}
	results := 0
	if _, m := s.latest(); m != nil {
		results = s.dense(size([]llm.Message{*m}))
	}
	if s.compactable() > 0 && (demanded || s.weight()-results > limit/2) {
		if out, err := r.compact(ctx, job, s, limit); out != nil || err != nil {
			return out, err
		}
	}
	share := s.share(limit)
	if share == 0 {
		return nil, nil //nolint:nilnil // the run goes on
	}
	before := s.weight()
	if err := r.append(ctx, job, s, execution.Note, "", noteBody{Share: share}, nil); err != nil {
		return nil, err
	}
	r.Log.InfoContext(ctx, "results cut", "step", s.Steps, "tokens_each", share, "tokens_before", before, "tokens_after", s.weight())
	return nil, nil //nolint:nilnil // the run goes on
}

// share is the most tokens that a result of the last answer may have, for all of them to
// fit a limit: the longest are cut first. 0: none has to be cut.
func (s *facts) share(limit int) int {
	_, m := s.latest()
	if m == nil || s.weight() <= limit {
		return 0
	}
	var sizes []int
	for _, r := range m.Results {
		sizes = append(sizes, tokens(r.Content))
	}
	over := float64(s.weight()-limit) / max(s.density, 1)
	level := max(levelOf(sizes, size([]llm.Message{*m})-int(over)-cutNote*len(sizes)), minShare)
	if level+cutNote >= slices.Max(sizes) {
		return 0
	}
	return level
}

// levelOf is the most that each of some sizes may have, for all to have so many: what the
// small ones leave is the large ones'.
func levelOf(sizes []int, in int) int {
	sizes = slices.Sorted(slices.Values(sizes))
	for i, n := range sizes {
		if level := in / (len(sizes) - i); n > level {
			return level
		}
		in -= n
	}
	return in
}

// foldShare cuts the results of the last answer.
func (s *facts) foldShare(share int) {
	i, m := s.latest()
	if m == nil {
		return
	}
	cut := *m
	cut.Results = slices.Clone(m.Results)
	for i, r := range cut.Results {
		if tokens(r.Content) > share+cutNote {
			cut.Results[i].Content = shortened(r.Content, head(r.Content, share))
		}
	}
	s.messages = slices.Clone(s.messages)
	s.messages[i], s.known = cut, 0
}

// shortened is the beginning of a text, and says so; how long the text was before it was
// cut the first time.
func shortened(text, beginning string) string {
	bytes := len(text)
	if at := cutMark().FindStringSubmatch(text); at != nil {
		if n, err := strconv.Atoi(at[1]); err == nil {
			bytes = n
		}
	}
	return fmt.Sprintf("%s…\n(cut: this is the beginning of %d bytes)", strings.TrimSuffix(beginning, "…"), bytes)
}

var cutMark = pattern.New(`…\n\(cut: this is the beginning of ([0-9]+) bytes\)$`)

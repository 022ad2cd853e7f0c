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

// The weight of a request is its size in tokens. It consists of the provider's count for the last
// request, and an estimate of everything that this count lacks or that was added since.

const (
	// promptShare is the share of a model's context window that a request may take. The rest is
	// for the answer.
	promptShare = 0.75
	// maxDensity is the largest ratio of a provider's token count to our estimate.
	maxDensity = 2.0
	// minLearned is the smallest number of tokens from which the ratio is learned.
	minLearned = 200
	// minShare is the smallest number of tokens that are left of a result. cutNote is the size of
	// its note.
	minShare = 50
	cutNote  = 20
)

// promptLimit returns the largest weight of a request; 0: no limit.
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

// quarters estimates the size of a text in quarters of a token: one for an ASCII character, four
// for any other.
func quarters(text string) (n int) {
	for i := range len(text) {
		switch {
		case text[i] < 0x80:
			n++
		case text[i] >= 0xc0: // first byte of a character
			n += 4
		}
	}
	return n
}

// tokens estimates the size of a text in tokens.
func tokens(text string) int { return quarters(text)/4 + 1 }

// head returns the beginning of a text that has about limit tokens.
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

// size estimates the size of messages in tokens.
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

// estimate estimates the size of a request in tokens.
func estimate(r llm.Request) int {
	n := tokens(r.System) + size(r.Messages)
	for _, t := range r.Tools {
		n += tokens(t.Name + t.Description + string(t.Parameters))
	}
	return n
}

// LeastAnswer is the smallest size of an answer, in tokens, for which a model is called.
const LeastAnswer = 256

// measured returns the usage of an answer as reported. It estimates missing counts and marks the
// usage as estimated.
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

// dense converts an estimate to the provider's count.
func (s *facts) dense(estimated int) int {
	return int(max(s.density, 1) * float64(estimated))
}

// learn compares the provider's count of the tokens since its last answer with the estimate. It
// then continues from the provider's count.
func (s *facts) learn(used llm.Usage) {
	if came := used.TotalTokens() - used.CompletionTokens - s.known; s.known > 0 && s.added >= minLearned && !used.Estimated {
		s.density = min(max(float64(came)/float64(s.added), 1), maxDensity)
	}
	s.known, s.added = used.TotalTokens(), 0
}

// weight estimates the size of the next request in tokens.
func (s *facts) weight() int {
	if s.known == 0 {
		return s.dense(s.base + size(s.messages))
	}
	return s.known + s.dense(s.added)
}

// latest returns the message with the results of the last answer, or nil if there is none.
func (s *facts) latest() (int, *llm.Message) {
	for i := len(s.messages) - 1; i >= 0 && s.messages[i].Role != llm.RoleAssistant; i-- {
		if s.messages[i].Role == llm.RoleTool {
			return i, &s.messages[i]
		}
	}
	return 0, nil
}

// fit makes the conversation fit a limit. If the messages before the last answer take more than
// half of it, or if demanded, a summary replaces them. The results of the last answer share the
// rest. fit returns an Outcome if the run ends.
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

// share returns the largest size of each result of the last answer with which all fit the limit, in
// tokens. It shortens the longest results first. It returns 0 if no result must be cut.
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

// levelOf returns the largest size with which all sizes together fit into in. Sizes below it leave
// more to the others.
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

// shortened returns the beginning of a text with a note. The note has the length of the text before
// it was cut for the first time.
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

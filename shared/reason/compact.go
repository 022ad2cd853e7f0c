package reason

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/run"
)

//go:embed compact.md
var compactPrompt string

const (
	// compactAt is the part of the model's window from which on a conversation is
	// compacted, kept the part that its newest messages may take afterwards.
	compactAt = 0.75
	kept      = 0.25
	// summaryTokens bounds a summary.
	summaryTokens = 1024
)

// full reports whether the conversation nears the end of the model's window.
func (s *facts) full(window int) bool {
	return window > 0 && float64(s.context) > compactAt*float64(window) && s.compactable() > 0
}

// compactable is the number of messages behind the first that can give way to a
// summary: all but the last answer and its results.
func (s *facts) compactable() int {
	for i := len(s.messages) - 1; i > 1; i-- {
		if s.messages[i].Role == llm.RoleAssistant {
			return i - 1
		}
	}
	return 0
}

// cutoff is the index of the first message that is kept: an answer, so that every
// call stays with its result, behind as many as it takes for the rest to be small.
func (s *facts) cutoff(window int) int {
	last := s.compactable() + 1
	for i := 2; i < last; i++ {
		if s.messages[i].Role == llm.RoleAssistant && float64(size(s.messages[i:])) <= kept*float64(window) {
			return i
		}
	}
	return last
}

// compact lets the model summarise the oldest messages; they stay in the journal.
// Without a summary the conversation stays as it is. An Outcome ends the run.
func (r *Runner) compact(ctx context.Context, job Job, s *state) (*Outcome, error) {
	from, to := 1, s.cutoff(job.Window)
	silent := job
	silent.Delta = nil // a summary is no answer
	resp, failed, err := r.answer(ctx, silent, s, llm.Request{
		System:    compactPrompt,
		Messages:  []llm.Message{{Role: llm.RoleUser, Text: transcript(s.messages[from:to], s.summary)}},
		MaxTokens: summaryTokens,
	}, summarising)
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return r.modelFailed(ctx, s, failed), nil
	}
	if job.Spent != nil {
		job.Spent(resp.Usage)
	}
	if strings.TrimSpace(resp.Text) == "" || resp.StopReason == llm.StopRefusal {
		r.Slog.WarnContext(ctx, "conversation not compacted: no summary came", "step", s.Steps, "stop_reason", resp.StopReason)
		return nil, nil //nolint:nilnil // the run goes on
	}
	before := s.context
	err = r.append(ctx, job, s, run.Note, "", compactedBody{From: from, To: to, Summary: resp.Text, Usage: resp.Usage}, &resp.Usage)
	if err != nil {
		return nil, err
	}
	r.Slog.InfoContext(ctx, "conversation compacted", "step", s.Steps, "messages", to-from, "tokens_before", before, "tokens_after", s.context)
	return nil, nil //nolint:nilnil // the run goes on
}

// transcript is a part of a conversation as text, each piece cut to what a summary
// can use.
func transcript(messages []llm.Message, earlier string) string {
	var b strings.Builder
	if earlier != "" {
		fmt.Fprintf(&b, "notes so far:\n%s\n", earlier)
	}
	for _, m := range messages {
		if m.Text != "" {
			fmt.Fprintf(&b, "%s: %s\n", m.Role, clip(m.Text, maxPiece))
		}
		for _, c := range m.Calls {
			fmt.Fprintf(&b, "call of %s: %s\n", c.Name, clip(string(c.Arguments), maxPiece))
		}
		for _, res := range m.Results {
			fmt.Fprintf(&b, "result of %s: %s\n", res.Name, clip(res.Content, maxPiece))
		}
	}
	return b.String()
}

// maxPiece bounds one text of a transcript, in bytes.
const maxPiece = 2000

package reason

import (
	"context"
	_ "embed"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

//go:embed compact.md
var compactPrompt string

// kept is the share of the limit that the newest messages may take after a compaction.
const kept = 0.33

// compactable returns the number of messages after the first that a summary can replace: all but
// the last answer and its results.
func (s *facts) compactable() int {
	for i := len(s.messages) - 1; i > 1; i-- {
		if s.messages[i].Role == llm.RoleAssistant {
			return i - 1
		}
	}
	return 0
}

// cutoff returns the index of the first message to keep. It is an answer, so that every call stays
// together with its result. The messages from there on fit into the kept share if possible.
func (s *facts) cutoff(limit int) int {
	last := s.compactable() + 1
	for i := 2; i < last; i++ {
		if s.messages[i].Role == llm.RoleAssistant && float64(s.dense(size(s.messages[i:]))) <= kept*float64(limit) {
			return i
		}
	}
	return last
}

// compact asks the model for a summary of the oldest messages, which remain in the journal. Without
// a summary the conversation does not change. compact returns an Outcome if the run ends.
func (r *Runner) compact(ctx context.Context, job Job, s *state, limit int) (*Outcome, error) {
	from, to := 1, s.cutoff(limit)
	silent := job
	silent.Delta = nil // the summary is not an answer
	resp, failed, err := r.answer(ctx, silent, s, llm.Request{
		Model: job.Model, System: compactPrompt,
		Messages:  []llm.Message{{Role: llm.RoleUser, Text: transcript(s.messages[from:to], s.summary, limit/2)}},
		MaxTokens: min(usualAnswer, max(limit/4, 1)), // a model may think before it writes the 400 words
	}, summarising)
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return r.modelFailed(ctx, s, failed), nil
	}
	if strings.TrimSpace(resp.Text) == "" || resp.StopReason == llm.StopRefusal {
		s.lost = s.lost.Plus(resp.Used())
		r.Log.WarnContext(ctx, "conversation not compacted: no summary came", "step", s.Steps, "stop_reason", resp.StopReason)
		return nil, nil //nolint:nilnil // the run goes on
	}
	before, used := s.weight(), resp.Used().Plus(s.lost)
	if err := r.append(ctx, job, s, execution.Note, "", noteBody{From: from, To: to, Summary: resp.Text, Usage: used}, &used); err != nil {
		return nil, err
	}
	r.Log.InfoContext(ctx, "conversation compacted", "step", s.Steps, "messages", to-from, "tokens_before", before, "tokens_after", s.weight())
	return nil, nil //nolint:nilnil // the run goes on
}

// transcript returns messages as text of at most limit tokens. It shortens the longest texts first,
// to a length that a summary can use.
func transcript(messages []llm.Message, earlier string, limit int) string {
	var labels, texts []string
	add := func(label, text string) { labels, texts = append(labels, label), append(texts, text) }
	if earlier != "" {
		add("notes so far:\n", earlier)
	}
	for _, m := range messages {
		if m.Text != "" {
			add(string(m.Role)+": ", m.Text)
		}
		for _, c := range m.Calls {
			add("call of "+c.Name+": ", string(c.Arguments))
		}
		for _, res := range m.Results {
			add("result of "+res.Name+": ", res.Content)
		}
	}
	var sizes []int
	for i, text := range texts {
		sizes = append(sizes, min(tokens(text), maxPiece))
		limit -= tokens(labels[i])
	}
	level := min(levelOf(sizes, max(limit, 0)), maxPiece)
	var b strings.Builder
	for i, text := range texts {
		b.WriteString(labels[i])
		if beginning := head(text, level); beginning != text {
			text = beginning + "…"
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// maxPiece is the longest text in a transcript, in tokens.
const maxPiece = 500

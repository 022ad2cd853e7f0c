package reason

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// These are the bodies of journal entries, in format 2. Format 1 had no system prompt, no skills,
// no waiting calls and no repetitions.
type (
	inputBody struct {
		System   string        `json:"system,omitempty"`
		Skills   []string      `json:"skills,omitzero"` // an empty list offers none, no list offers all
		Messages []llm.Message `json:"messages"`
		Decided  string        `json:"decided,omitempty"` // the approval whose outcome the messages report
	}
	modelBody struct {
		Message    llm.Message    `json:"message"`
		Usage      llm.Usage      `json:"usage"`
		Lost       llm.Usage      `json:"lost,omitzero"` // used by interrupted tries; Usage may include their cost
		Model      string         `json:"model"`
		StopReason llm.StopReason `json:"stop_reason"`
	}
	calledBody struct {
		Call  llm.ToolCall `json:"call"`
		Skill string       `json:"skill"`
	}
	resultBody struct {
		Call  llm.ToolCall `json:"call"`
		Skill string       `json:"skill,omitempty"`    // the skill that ran or waits; empty: no skill ran
		Waits string       `json:"approval,omitempty"` // the approval that the call waits for
		// Crowded says that the call does not even wait, because too many others wait.
		Crowded bool           `json:"crowded,omitempty"`
		Result  llm.ToolResult `json:"result"`
		// Digest is a hash of skill, arguments and result. Times says how often in a row it has
		// been the same.
		Digest string `json:"digest,omitempty"`
		Times  int    `json:"times,omitempty"`
	}
	// noteBody says that a summary replaces the messages From up to To, or that each of the last
	// results was cut to Share tokens.
	noteBody struct {
		From    int       `json:"from,omitempty"`
		To      int       `json:"to,omitempty"`
		Summary string    `json:"summary,omitempty"`
		Usage   llm.Usage `json:"usage,omitzero"`
		Share   int       `json:"share,omitempty"`
	}
)

// state is the result of folding a journal's entries.
type state struct {
	model      llm.Model
	halts      Halts                       // kill switches when the step began
	owed       func(context.Context) error // settles the last call's usage; nil: settled
	mu         sync.Mutex                  // guards the facts while calls run concurrently
	recorded   func([]execution.Entry)
	lines      []activity.Entry // of model calls, not yet in the activity log
	lost       llm.Usage        // used by calls without an answer, not yet in the journal
	byHand     bool             // no model asked for the calls
	guard      *redact.Guard    // of what strangers are told; nil: it is not for them
	known      *redact.Redactor // redacts secret values; nil: there are none
	limit      int              // limit of a request's weight after the model found one too long; 0: it did not
	basis      *Basis           // for the first step; nil: it was used, or there is none
	unbudgeted bool             // the next call of the model is in a workspace without budgets
	opening    func() error     // waits for the commit of the first entry; nil: it is committed
	facts
}

// awaitOpening waits until the first entry of the journal is committed, and returns why it is not.
func (s *state) awaitOpening() error {
	if s.opening == nil {
		return nil
	}
	return s.opening()
}

// afterOpening returns say for the pieces of an answer that begins while the first entry of the journal
// is committed: no piece is passed on before, and none, after stop, when the commit fails.
func (s *state) afterOpening(say func(llm.Delta), stop func()) func(llm.Delta) {
	if say == nil || s.opening == nil {
		return say
	}
	return func(d llm.Delta) {
		if s.awaitOpening() != nil {
			stop()
			return
		}
		say(d)
	}
}

// tellFresh passes on the entries that were committed last.
func (s *state) tellFresh() {
	if s.recorded != nil && len(s.fresh) > 0 {
		s.recorded(s.fresh)
	}
	s.fresh = nil
}

type facts struct {
	Progress
	seq      int
	system   string // the system prompt
	skills   []string
	messages []llm.Message
	summary  string // replaces earlier messages, at the end of the first message
	trust    execution.Trust
	asked    execution.Trust   // the trust at the time of the last answer, which applies to its calls
	ending   llm.StopReason    // why the last answer ended
	base     int               // estimated tokens of the system prompt and the tools
	density  float64           // ratio of the provider's token count to our estimate
	known    int               // tokens up to the last answer, counted by the provider; 0: unknown
	added    int               // estimated tokens since then
	pending  []pendingCall     // calls of the last answer without a result
	called   map[string]string // those pending calls that began to have effects outside, with their skills
	results  []llm.ToolResult
	said     string            // the model's last text
	waits    []string          // approvals that calls wait for and whose outcome was not reported
	fresh    []execution.Entry // added in this transaction
	crowded  bool              // a call may not even wait, because too many do
	answered bool              // the last answer has no calls
	silences int               // consecutive answers for which saysNothing holds
	nudged   bool              // the next request asks again after such an answer
	strikes  int               // consecutive answers with an impossible call and without a possible one after it
	missed   int               // the step of the last strike
	misses   map[string]miss   // by tool
	struck   LastMistake
	done     []string       // skills that succeeded, in order
	open     []string       // skills whose effect is unknown
	same     map[string]int // consecutive identical results of the last answer's calls, by digest
	before   map[string]int // the same for the previous answer
	looped   sameness       // a repetition beyond the limit
	made     outcome        // of the last call
}

// LastMistake is a call that could not be made, with the text that the model got.
type LastMistake struct{ Tool, Arguments, Message string }

// tried returns the call for the activity log, or nil if there was none.
func (s LastMistake) tried() json.RawMessage {
	if s == (LastMistake{}) {
		return nil
	}
	return encode(map[string]string{"tool": s.Tool, "arguments": s.Arguments, "told": s.Message})
}

// sameness counts identical consecutive results of a skill.
type sameness struct {
	skill string
	times int
}

// miss counts the answers with an impossible call of one tool. A success of another tool does not
// reset it. A success of the same tool resets it if its answer has no impossible call of that tool.
type miss struct {
	times int
	step  int // the step of the last miss
}

// pendingCall is a call with its position in the execution.
type pendingCall struct {
	id    string // "3.1": the first of step 3
	index int    // position in its answer, from 0
	llm.ToolCall
}

// foldEntries folds a journal. base is the estimated number of tokens that every request has beside
// its messages.
func foldEntries(entries []execution.Entry, base int) (*state, error) {
	s := &state{facts: facts{base: base}}
	for _, e := range entries {
		if e.Seq != s.seq+1 {
			return nil, fmt.Errorf("the journal goes from entry %d to %d", s.seq, e.Seq)
		}
		if err := s.fold(e); err != nil {
			return nil, fmt.Errorf("journal entry %d (%s): %w", e.Seq, e.Kind, err)
		}
	}
	return s, nil
}

// add creates the next entry and folds it in, exactly as a resumed run would do. trust is the trust
// of the texts that the entry adds. Known secrets are redacted.
func (s *state) add(kind execution.Kind, status execution.StepStatus, call string, trust execution.Trust,
	body any) (execution.Entry, error) {
	raw, err := json.Marshal(discreetBody(s.known, body))
	if err != nil {
		return execution.Entry{}, fmt.Errorf("encode a journal entry: %w", err)
	}
	e := execution.Entry{
		Seq: s.seq + 1, Step: s.Steps, Kind: kind, Status: status, Call: call, Format: execution.Format,
		Trust: s.trust.With(trust), Body: activity.Storable(raw),
	}
	if kind == execution.Model {
		e.Step++
	}
	if err := s.fold(e); err != nil {
		return execution.Entry{}, err
	}
	s.fresh = append(s.fresh, e)
	return e, nil
}

func (s *facts) fold(e execution.Entry) error {
	s.seq = e.Seq
	s.trust = s.trust.With(e.Trust)
	switch e.Kind {
	case execution.Input:
		return folded(e, func(b inputBody) error {
			if s.seq == 1 {
				s.system, s.skills = b.System, b.Skills
			}
			s.messages = append(s.messages, b.Messages...)
			s.added += size(b.Messages)
			s.answered, s.said, s.crowded, s.silences, s.nudged = false, "", false, 0, false // they need a new answer
			s.waits = slices.DeleteFunc(slices.Clone(s.waits), func(id string) bool { return id == b.Decided })
			return nil
		})
	case execution.Model:
		return folded(e, func(b modelBody) error { return s.foldAnswer(e.Step, b) })
	case execution.Called:
		return folded(e, func(b calledBody) error {
			s.called = with(s.called, e.Call, b.Skill)
			return nil
		})
	case execution.Result:
		return folded(e, func(b resultBody) error { return s.foldResult(e, b) })
	case execution.Note:
		return folded(e, s.foldCompacted)
	}
	return nil
}

// with returns a copy of m with one more entry. A copy is needed because the transaction may be
// rolled back.
func with[V any](m map[string]V, key string, v V) map[string]V {
	if m = maps.Clone(m); m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

func folded[B any](e execution.Entry, fold func(B) error) error {
	var b B
	if err := json.Unmarshal(e.Body, &b); err != nil {
		return err
	}
	return fold(b)
}

func (s *facts) foldAnswer(step int, b modelBody) error {
	if len(s.pending) > 0 {
		return fmt.Errorf("an answer while %d calls have no result", len(s.pending))
	}
	s.Steps, s.ModelCalls, s.Usage = step, s.ModelCalls+1, s.Usage.Plus(b.Usage).Plus(b.Lost)
	s.learn(b.Usage)
	s.messages, s.nudged = append(s.conversation(), b.Message), false
	s.answered, s.said = len(b.Message.Calls) == 0, cmp.Or(b.Message.Text, s.said)
	s.ending = b.StopReason
	if s.answered && s.saysNothing() {
		s.silences++
	} else {
		s.silences = 0
	}
	if s.silences == 1 {
		s.answered, s.nudged = false, true
	}
	if len(s.same) > 0 {
		s.before, s.same = s.same, nil
	}
	s.asked = s.trust
	s.results, s.called = make([]llm.ToolResult, len(b.Message.Calls)), nil
	for i, c := range b.Message.Calls {
		s.pending = append(s.pending, pendingCall{fmt.Sprintf("%d.%d", step, i+1), i, c})
	}
	return nil
}

// conversation returns the messages of the next request. The note that asks again joins the
// messages only with its answer: in journals of versions without that note, summaries count the
// messages without it.
func (s *facts) conversation() []llm.Message {
	if !s.nudged {
		return s.messages
	}
	return append(slices.Clip(s.messages), llm.Message{Role: llm.RoleUser, Text: askedAgain})
}

func (s *facts) foldResult(e execution.Entry, b resultBody) error {
	at := slices.IndexFunc(s.pending, func(c pendingCall) bool { return c.id == e.Call })
	if at < 0 {
		return fmt.Errorf("a result of call %s that is not awaited", e.Call)
	}
	s.results[s.pending[at].index] = b.Result
	s.pending = slices.Concat(s.pending[:at], s.pending[at+1:])
	s.added += tokens(b.Result.Content)
	if len(s.pending) == 0 {
		s.messages = append(s.messages, llm.Message{Role: llm.RoleTool, Results: slices.Clone(s.results)})
		defer s.forgive()
	}
	if b.Skill == "" {
		if m := s.misses[b.Call.Name]; m.step != s.Steps {
			s.misses = with(s.misses, b.Call.Name, miss{m.times + 1, s.Steps})
		}
		if s.missed != s.Steps { // the model learns all mistakes of an answer at once
			s.strikes++
		}
		s.missed, s.struck = s.Steps, LastMistake{b.Call.Name, string(b.Call.Arguments), b.Result.Content}
		return nil
	}
	s.strikes, s.missed, s.struck = 0, 0, LastMistake{}
	s.crowded = s.crowded || b.Crowded
	if b.Digest != "" {
		s.same = with(s.same, b.Digest, b.Times)
	}
	if b.Times > maxSame {
		s.looped = sameness{b.Skill, b.Times}
	}
	s.made = outcome{status: e.Status, message: b.Result.Content}
	if e.Status == execution.Succeeded {
		s.made = outcome{status: e.Status, output: plainly(b.Result.Content), waits: b.Waits}
	}
	switch {
	case b.Waits != "":
		s.waits = append(slices.Clone(s.waits), b.Waits)
	case e.Status == execution.Uncertain:
		s.open = append(s.open, b.Skill)
	case e.Status == execution.Succeeded:
		s.done = append(s.done, b.Skill)
	}
	return nil
}

// forgive resets the misses of the tools whose calls in the last answer were all possible.
func (s *facts) forgive() {
	for _, r := range s.results {
		if m := s.misses[r.Name]; m.times > 0 && !r.IsError && m.step != s.Steps {
			s.misses = with(s.misses, r.Name, miss{})
		}
	}
}

// foldCompacted replaces messages by a summary. The summary joins the message before them, so that
// roles still alternate, and replaces an earlier summary.
func (s *facts) foldCompacted(b noteBody) error {
	if b.Share > 0 {
		s.foldShare(b.Share)
	}
	if b.To == 0 {
		return nil
	}
	if b.From < 1 || b.To <= b.From || b.To > len(s.messages) {
		return fmt.Errorf("a summary of messages %d to %d of %d", b.From, b.To, len(s.messages))
	}
	head := slices.Clone(s.messages[:b.From])
	if last := &head[b.From-1]; s.summary == "" {
		last.Text += "\n\n" + summarised + b.Summary
	} else {
		last.Text = strings.TrimSuffix(last.Text, s.summary) + b.Summary
	}
	s.summary = b.Summary
	s.messages = slices.Concat(head, s.messages[b.To:])
	s.Usage = s.Usage.Plus(b.Usage)
	s.ModelCalls++
	s.known = 0
	return nil
}

// summarised precedes a summary of messages that are no longer sent.
const summarised = "[Summary of the conversation so far, which is not repeated here:]\n"

// plainly returns the content of a result as JSON.
func plainly(content string) json.RawMessage {
	content = strings.TrimPrefix(content, untrustedPrefix)
	if json.Valid([]byte(content)) {
		return json.RawMessage(content)
	}
	raw, _ := json.Marshal(content)
	return raw
}

func (s *facts) stop(ctx context.Context, stops []Stop) *Stopped {
	for _, stop := range stops {
		if st := stop(ctx, s.Progress); st != nil {
			return st
		}
	}
	return nil
}

func (s *facts) outcome(status execution.Status, reason string) Outcome {
	out := Outcome{
		Status: status, Reason: reason, Answer: s.said, Trust: s.trust, Progress: s.Progress,
		LastMistake: s.struck, Uncertain: s.open, Waits: s.waits,
	}
	for _, c := range s.pending {
		if name, begun := s.called[c.id]; begun && status != execution.Parked { // nobody resumes the call
			out.Uncertain = append(slices.Clone(out.Uncertain), name)
		}
	}
	if status != execution.Completed {
		out.Summary = "nothing was done yet"
		if len(s.done) > 0 {
			out.Summary = "done so far: " + strings.Join(s.done, ", ")
		}
	}
	return out
}

// wordsOf returns the trust of texts that reach a run through its surface.
func wordsOf(s trace.Surface) execution.Trust {
	if s == trace.Chat || s == trace.Webhook {
		return execution.Untrusted
	}
	return execution.Trusted
}

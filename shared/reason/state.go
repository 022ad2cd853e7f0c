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

// The bodies of journal entries, in format 2. Format 1 knew no system prompt, no
// skills, no waiting calls and no repetitions.
type (
	inputBody struct {
		System   string        `json:"system,omitempty"`
		Skills   []string      `json:"skills,omitzero"` // an empty list is none; without a list, all are offered
		Messages []llm.Message `json:"messages"`
		Decided  string        `json:"decided,omitempty"` // the approval of which the messages tell what became
	}
	modelBody struct {
		Message    llm.Message    `json:"message"`
		Usage      llm.Usage      `json:"usage"`
		Lost       llm.Usage      `json:"lost,omitzero"` // by tries before it that broke off; Usage may have what they cost
		Model      string         `json:"model"`
		StopReason llm.StopReason `json:"stop_reason"`
	}
	calledBody struct {
		Call  llm.ToolCall `json:"call"`
		Skill string       `json:"skill"`
	}
	resultBody struct {
		Call  llm.ToolCall `json:"call"`
		Skill string       `json:"skill,omitempty"`    // the skill that ran, or waits; empty: none does
		Waits string       `json:"approval,omitempty"` // the approval that it waits for
		// Crowded says that it does not wait, since too many others do.
		Crowded bool           `json:"crowded,omitempty"`
		Result  llm.ToolResult `json:"result"`
		// Digest is of skill, arguments and result; Times says how often in a row it
		// has been the same.
		Digest string `json:"digest,omitempty"`
		Times  int    `json:"times,omitempty"`
	}
	// noteBody says that messages From up to To gave way to a summary, or that each of
	// the last results was cut to Share tokens.
	noteBody struct {
		From    int       `json:"from,omitempty"`
		To      int       `json:"to,omitempty"`
		Summary string    `json:"summary,omitempty"`
		Usage   llm.Usage `json:"usage,omitzero"`
		Share   int       `json:"share,omitempty"`
	}
)

// state is what the journal's entries add up to.
type state struct {
	model    llm.Model
	halts    Halts                       // that were in force when the step began
	owed     func(context.Context) error // counts what the last call used; nil: it is counted
	mu       sync.Mutex                  // of the facts, while calls run side by side
	recorded func([]execution.Entry)
	lines    []activity.Entry // of model calls, that are not in the activity log yet
	lost     llm.Usage        // by calls without an answer, that the journal does not have yet
	byHand   bool             // no model asks for the calls
	known    *redact.Redactor // takes out the values that nobody may be told; nil: there are none
	limit    int              // of what a request may weigh, since the model found one too long; 0: it found none
	facts
}

type facts struct {
	Progress
	seq      int
	system   string // that the run began with
	skills   []string
	messages []llm.Message
	summary  string // of earlier ones, at the end of the first
	trust    execution.Trust
	asked    execution.Trust   // when the last answer was given: what its calls go by
	ending   llm.StopReason    // why the last answer ended
	base     int               // tokens that the system prompt and the tools take, about
	density  float64           // how many times more than estimated the provider counts
	known    int               // tokens up to the last answer, as the provider counted them; 0: it is not known
	added    int               // tokens that have come since, about
	pending  []pendingCall     // calls of the last answer without a result
	called   map[string]string // of them, those that have begun in the world outside: their skill
	results  []llm.ToolResult
	said     string            // the model's last words
	waits    []string          // approvals that calls wait for, and whose end was not told
	fresh    []execution.Entry // added in this transaction
	crowded  bool              // a call could not even wait, since too many do
	answered bool              // the last answer asked for no call
	silences int               // answers in a row that said nothing, and asked for no call
	nudged   bool              // the next request asks again, after such an answer
	strikes  int               // answers in a row with a call that could not be made, and none since that could
	missed   int               // the step of the last strike
	misses   map[string]miss   // by tool
	struck   LastMistake
	done     []string       // skills that succeeded, in order
	open     []string       // skills of which it is not known whether they had their effect
	same     map[string]int // how often in a row the calls of the last answer brought the same, by digest
	before   map[string]int // those of the answer before it
	looped   sameness       // beyond what is allowed
	made     outcome        // of the call that ran last
}

// LastMistake is a call that could not be made, and what the model was told of it.
type LastMistake struct{ Tool, Arguments, Told string }

// tried is the call for the log; nothing where there was none.
func (s LastMistake) tried() json.RawMessage {
	if s == (LastMistake{}) {
		return nil
	}
	return encode(map[string]string{"tool": s.Tool, "arguments": s.Arguments, "told": s.Told})
}

// sameness is how often in a row a call brought the same.
type sameness struct {
	skill string
	times int
}

// miss counts the answers with a call of a tool that could not be made. Another
// tool's success changes nothing of it, one of its own does, in an answer without
// such a call.
type miss struct {
	times int
	step  int // of the last one
}

// pendingCall is a call with its place in the execution.
type pendingCall struct {
	id    string // "3.1": the first of step 3
	index int    // from 0, in its answer
	llm.ToolCall
}

// foldEntries folds a journal; base is about how many tokens all requests have beside
// their messages.
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

// add makes the next entry and folds it in, exactly as a resumed run would. words
// are whose words it brings in. Secrets are left out.
func (s *state) add(kind execution.Kind, status execution.StepStatus, call string, trust execution.Trust, body any) (execution.Entry, error) {
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
			s.answered, s.said, s.crowded, s.silences, s.nudged = false, "", false, 0, false // they ask for an answer of their own
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

// with is a copy of m with one more: what a transaction adds may be undone.
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

// conversation is what the model is asked with next. That it is asked again joins the
// messages with its answer only: in journals of builds that did not ask again, the
// summaries count messages without it.
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
		if s.missed != s.Steps { // the model learns of an answer's mistakes all at once
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

// forgive forgets the misses of the tools of which the last answer has right calls
// only.
func (s *facts) forgive() {
	for _, r := range s.results {
		if m := s.misses[r.Name]; m.times > 0 && !r.IsError && m.step != s.Steps {
			s.misses = with(s.misses, r.Name, miss{})
		}
	}
}

// foldCompacted lets a summary stand for messages; it joins the one before them,
// so that the roles go on alternating, and takes an earlier summary's place.
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

// summarised begins a summary of what the messages say no more.
const summarised = "[Summary of the conversation so far, which is not repeated here:]\n"

// plainly is a result's content as JSON.
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
		if name, begun := s.called[c.id]; begun && status != execution.Parked { // nobody resumes it
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

// wordsOf are whose words reach a run through its surface.
func wordsOf(s trace.Surface) execution.Trust {
	if s == trace.Chat || s == trace.Webhook {
		return execution.Untrusted
	}
	return execution.Trusted
}

package span

import (
	"context"
	"crypto/rand"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Kind is the kind of a span, with the number that OTLP gives it.
type Kind int

// The kinds of spans.
const (
	Internal Kind = 1
	Client   Kind = 3 // a call of another system
)

// Operation is the operation of a span, in the words of the conventions for generative AI.
type Operation string

// The operations of spans.
const (
	InvokeAgent Operation = "invoke_agent" // a run of an execution
	Chat        Operation = "chat"         // a call of a model
	ExecuteTool Operation = "execute_tool" // a call of a skill
)

// Other is the class of an error that has no class of its own.
const Other = "_OTHER"

// scope is what the spans of a run have in common.
type scope struct {
	trace     trace.ID
	execution string
	workspace string
	surface   string
	attempt   int
}

// Span is one piece of work that goes on. One goroutine at a time uses it; the pieces below it may be used
// by others. A nil Span does nothing.
type Span struct {
	x      *Exporter
	in     scope
	id     [8]byte
	parent [8]byte // zero: none
	links  []Link
	name   string
	kind   Kind
	begun  time.Time
	ended  time.Time
	attrs  []attribute
	failed string // class of the error; empty: none
}

// attribute is a named value: a text, or a number.
type attribute struct {
	key    string
	text   string
	number int64
	form   form
}

type form int

const (
	text  form = iota
	texts      // a list with one text
	number
)

type contextKey struct{}

// current returns the span that ctx belongs to, or nil.
func current(ctx context.Context) *Span {
	s, _ := ctx.Value(contextKey{}).(*Span)
	return s
}

// Under returns a context whose calls have the span as their parent.
func (s *Span) Under(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, s)
}

// Run is a run of an execution.
type Run struct {
	Trace     trace.ID
	Execution string
	Parent    string // execution; empty: none
	Workspace string
	Surface   trace.Surface
	Agent     string
	Unit      string // the kind of work
	Attempt   int
	// Resumed says that another run has begun the execution.
	Resumed bool
	Begun   time.Time // zero: now
}

// Now returns the present time of the exporter, or the zero time.
func (x *Exporter) Now() (now time.Time) {
	if x != nil {
		now = x.o.Clock()
	}
	return now
}

// Run begins the span of a run.
func (x *Exporter) Run(ctx context.Context, r Run) *Span {
	if x == nil {
		return nil
	}
	if r.Begun.IsZero() {
		r.Begun = x.o.Clock()
	}
	s := x.begin(InvokeAgent, r.Agent, Internal, r.Begun)
	s.in = scope{trace: r.Trace, execution: r.Execution, workspace: r.Workspace, surface: r.Surface.Name(), attempt: r.Attempt}
	s.id = ExecutionID(r.Execution)
	switch {
	case r.Resumed:
		s.parent, s.id = s.id, runID(r.Execution, r.Attempt, r.Begun)
	case r.Parent != "":
		s.parent = ExecutionID(r.Parent)
	default:
		s.links = linksOf(ctx)
	}
	s.Text("gen_ai.agent.name", r.Agent)
	s.Text("lanekeeper.unit", r.Unit)
	return s
}

// Start begins the span of a call. Its parent is the span of ctx, or else the run that began the execution
// of ctx. A context without a trace has no spans.
func (x *Exporter) Start(ctx context.Context, op Operation, name string, kind Kind) *Span {
	if x == nil {
		return nil
	}
	id, ok := trace.From(ctx)
	if !ok {
		return nil
	}
	s := x.begin(op, name, kind, x.o.Clock())
	_, _ = rand.Read(s.id[:]) // never fails
	execution := trace.Execution(ctx)
	if above := current(ctx); above != nil && above.in.trace == id && above.in.execution == execution {
		s.in, s.parent = above.in, above.id
		return s
	}
	s.in = scope{trace: id, execution: execution, workspace: trace.Workspace(ctx)}
	if execution != "" {
		s.parent = ExecutionID(execution)
	} else {
		s.links = linksOf(ctx)
	}
	return s
}

func (x *Exporter) begin(op Operation, name string, kind Kind, begun time.Time) *Span {
	s := &Span{x: x, name: string(op), kind: kind, begun: begun, attrs: make([]attribute, 0, 8)}
	if name != "" {
		s.name += " " + bounded(name)
	}
	s.Text("gen_ai.operation.name", string(op))
	return s
}

// Text sets an attribute. An empty value sets nothing.
func (s *Span) Text(key, value string) {
	if s != nil && value != "" {
		s.attrs = append(s.attrs, attribute{key: key, text: bounded(value)})
	}
}

// List sets an attribute to a list that has one value. An empty value sets nothing.
func (s *Span) List(key, value string) {
	if s != nil && value != "" {
		s.attrs = append(s.attrs, attribute{key: key, text: bounded(value), form: texts})
	}
}

// Number sets an attribute. Zero sets nothing.
func (s *Span) Number(key string, value int) {
	if s != nil && value != 0 {
		s.attrs = append(s.attrs, attribute{key: key, number: int64(value), form: number})
	}
}

// Fail says that the work has failed. class names the error's class; it is never an error's message. An
// empty class is [Other].
func (s *Span) Fail(class string) {
	if s == nil {
		return
	}
	if class == "" {
		class = Other
	}
	s.failed = bounded(class)
}

// End ends the span and keeps it in memory until the exporter sends it. It waits for nobody, so it may be
// called in a transaction. The span is not used afterwards.
func (s *Span) End() {
	if s == nil {
		return
	}
	s.ended = s.x.o.Clock()
	if s.ended.Before(s.begun) {
		s.ended = s.begun
	}
	s.x.keep(s)
}

// maxText is the longest text of a span, in bytes.
const maxText = 200

// bounded cuts a text that is too long, and removes what is not UTF-8.
func bounded(s string) string {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

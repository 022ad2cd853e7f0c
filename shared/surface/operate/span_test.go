package operate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/span/spantest"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// exported has the world's spans go to a receiver. The returned function flushes them and returns the spans.
func (w *world) exported(t *testing.T) (*span.Exporter, func() []spantest.Span) {
	t.Helper()
	r := spantest.New(t)
	x := span.New(span.Options{Endpoint: r.URL, Service: "lanekeeper-operate", Limit: time.Minute})
	t.Cleanup(x.Close)
	w.Reason.Spans = x
	if e, ok := w.Sender.Handlers[approval.Topic].(*approval.Executor); ok {
		e.Spans = x
	}
	return x, func() []spantest.Span {
		x.Flush(t.Context())
		return r.Spans()
	}
}

// A turn that came with a traceparent is linked to it. Its fork, which another process works on, waits for a
// person and goes on: all of it is one tree.
func TestATurnAndItsForkAreOneTree(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		x, spans := w.exported(t)
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "note", `{"what":"x"}`), llmtest.Writes("Noted.")))
		id := traces.New(trace.Operate)
		ctx := x.Received(trace.With(t.Context(), id), http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
		r := must(w.Talk(ctx, w.Workspace, turn.Turn{Message: "Note x.", By: "user:ada"}))(t)
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("It waits."), llmtest.Writes("It is paid.")))
		fork := must(w.Fork(t.Context(), w.Workspace, r.Trace, "", 2, operate.Edits{}))(t)
		w.drain(t)
		waits, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{})
		if err != nil || len(waits) != 1 {
			t.Fatalf("%+v, %v", waits, err)
		}
		must(w.Approvals.Approve(t.Context(), w.Workspace, waits[0].ID, "user:ada", nil))(t)
		w.drain(t)
		w.drain(t)
		if e := w.execution(t, fork.ID); e.Status != execution.Completed {
			t.Fatalf("it is %+v", e)
		}
		all := spans()
		want := strings.Join([]string{
			"invoke_agent flowpilot", "  chat script", "  execute_tool note", "  chat script", // the turn
			"  invoke_agent flowpilot",                                             // the fork is begun
			"    invoke_agent flowpilot", "      chat script", "      chat script", // and asks for a payment
			"    execute_tool pay", "    invoke_agent flowpilot", "      chat script", // which is approved
		}, "\n")
		if got := spantest.Outline(t, all); got != want {
			t.Errorf("the tree is\n%s\nwant\n%s", got, want)
		}
		for _, s := range all {
			linked := len(s.Links) == 1 && s.Links[0].Trace == "0af7651916cd43dd8448eb211c80319c"
			if linked != (s.Parent == "") || s.Failed || s.Attributes["lanekeeper.trace_id"] != string(r.Trace) || r.Trace != id {
				t.Errorf("it is %+v", s)
			}
		}
	})
}

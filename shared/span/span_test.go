package span_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/span/spantest"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hb = trace.ID("hb_0mh8c1v2q_a7x2p1k9d4")

// counts are the spans that an exporter says that it has exported and dropped.
type counts struct {
	mu                sync.Mutex
	exported, dropped int
}

func (c *counts) add(exported, dropped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exported += exported
	c.dropped += dropped
}

func (c *counts) are(exported, dropped int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exported == exported && c.dropped == dropped
}

// exporter returns an exporter to a URL. Its connections end with the test.
func exporter(t *testing.T, o span.Options) (*span.Exporter, *counts) {
	t.Helper()
	c := new(counts)
	o.Observe = c.add
	if o.Service == "" {
		o.Service = "lanekeeper-test"
	}
	x := span.New(o)
	t.Cleanup(x.Close)
	return x, c
}

// calls records n calls of a skill.
func calls(x *span.Exporter, n int) {
	ctx := trace.With(context.Background(), hb)
	for range n {
		x.Start(ctx, span.ExecuteTool, "look", span.Internal).End()
	}
}

func digest(of string, n int) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:n])
}

// A run, its calls, a later run of the same execution and the run of a child are one tree, whose ids anybody
// can derive.
func TestATreeOfSpans(t *testing.T) {
	r := spantest.New(t)
	now := time.Unix(1_700_000_000, 5)
	tick := func() time.Time { now = now.Add(time.Second); return now }
	x, c := exporter(t, span.Options{
		Endpoint: r.URL + "/", Version: "v1.2.3", Clock: tick, Resource: map[string]string{"cloud.provider": "aws", "none": ""},
		Headers: map[string]string{"Api-Key": "a key"},
	})
	ctx := trace.WithWorkspace(trace.WithExecution(trace.With(t.Context(), hb), "e1"), "w1")
	run := x.Run(ctx, span.Run{
		Trace: hb, Execution: "e1", Workspace: "w1", Surface: trace.Heartbeat, Agent: "flowpilot", Unit: "beat", Attempt: 1,
	})
	under := run.Under(ctx)
	chat := x.Start(under, span.Chat, "model-1", span.Client)
	chat.Number("gen_ai.usage.input_tokens", 10)
	chat.List("gen_ai.response.finish_reasons", "end_turn")
	chat.Fail("overloaded")
	chat.End()
	child := x.Run(under, span.Run{Trace: hb, Execution: "e2", Parent: "e1", Agent: "flowpilot"})
	inner := trace.WithExecution(under, "e2")
	tool := x.Start(child.Under(inner), span.ExecuteTool, "look", span.Internal)
	tool.End()
	x.Start(inner, span.ExecuteTool, "approved", span.Internal).End() // without the span of its run
	child.End()
	run.End()
	again := x.Run(ctx, span.Run{Trace: hb, Execution: "e2", Parent: "e1", Attempt: 2, Resumed: true})
	again.End()
	x.Flush(t.Context())

	got := map[string]spantest.Span{}
	for _, s := range r.Spans() {
		got[s.Name] = s
		if s.Trace != digest("lanekeeper trace "+string(hb), 16) || s.Attributes["lanekeeper.trace_id"] != string(hb) {
			t.Errorf("%s is in trace %s", s.Name, s.Trace)
		}
		want := map[string]any{"service.name": "lanekeeper-test", "service.version": "v1.2.3", "cloud.provider": "aws"}
		if !reflect.DeepEqual(s.Resource, want) {
			t.Errorf("the resource is %v", s.Resource)
		}
	}
	e1, e2 := digest("lanekeeper execution e1", 8), digest("lanekeeper execution e2", 8)
	parents := map[string]string{"chat model-1": e1, "execute_tool look": e2, "execute_tool approved": e2, "invoke_agent": e2}
	for name, parent := range parents {
		if got[name].Parent != parent || got[name].ID == parent {
			t.Errorf("%s is %+v, want the parent %s", name, got[name], parent)
		}
	}
	var runs []string
	for _, s := range r.Spans() {
		if s.Name == "invoke_agent flowpilot" {
			runs = append(runs, s.ID+"<"+s.Parent)
		}
	}
	if want := []string{e2 + "<" + e1, e1 + "<"}; !reflect.DeepEqual(runs, want) {
		t.Errorf("the runs are %v, want %v", runs, want)
	}
	s := got["chat model-1"]
	if want := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": int64(10), "gen_ai.response.finish_reasons": []string{"end_turn"},
		"error.type": "overloaded", "lanekeeper.trace_id": string(hb), "lanekeeper.execution_id": "e1", "lanekeeper.workspace_id": "w1",
		"lanekeeper.surface": "heartbeat", "lanekeeper.attempt": int64(1),
	}; !s.Failed || s.Kind != 3 || s.Ended-s.Begun != int64(time.Second) || !reflect.DeepEqual(s.Attributes, want) {
		t.Errorf("the call of a model is %+v", s)
	}
	if all := r.Requests(); len(all) != 1 || all[0].Header.Get("Api-Key") != "a key" || !c.are(6, 0) {
		t.Errorf("%d requests, counted are %+v", len(all), c)
	}
}

// Without an endpoint nothing is made, and nothing allocated.
func TestNoEndpoint(t *testing.T) {
	x := span.New(span.Options{})
	if x != nil {
		t.Fatal("there is an exporter")
	}
	ctx := trace.WithExecution(trace.With(t.Context(), hb), "e1")
	h := http.Header{"Traceparent": {parent}, "X-Amzn-Trace-Id": {xray}}
	if n := testing.AllocsPerRun(100, func() {
		s := x.Run(ctx, span.Run{Trace: hb, Execution: "e1", Begun: x.Now()})
		in := s.Under(x.Received(x.Invoked(ctx, xray), h))
		c := x.Start(in, span.Chat, "model-1", span.Client)
		c.Text("gen_ai.provider.name", "demo")
		c.List("x", "y")
		c.Number("x", 1)
		c.Fail("")
		c.End()
		s.End()
		x.Flush(in)
		if in != ctx {
			t.Error("the context is another")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	x.Keep(t.Context())
	x.Close()
}

// A context without a trace has no spans.
func TestNoTrace(t *testing.T) {
	x, _ := exporter(t, span.Options{Endpoint: "http://127.0.0.1:1"})
	if s := x.Start(t.Context(), span.Chat, "m", span.Client); s != nil {
		t.Errorf("there is %+v", s)
	}
}

// Texts are bounded and valid.
func TestTextsAreBounded(t *testing.T) {
	r := spantest.New(t)
	x, _ := exporter(t, span.Options{Endpoint: r.URL})
	s := x.Start(trace.With(t.Context(), hb), span.Chat, "\xff"+strings.Repeat("ü", 1000), span.Client)
	s.Text("long", strings.Repeat("ü", 1000)+"\xff")
	s.End()
	x.Flush(t.Context())
	for _, s := range r.Spans() {
		if long, _ := s.Attributes["long"].(string); len(long) != 200 || len(s.Name) > 220 {
			t.Errorf("%d and %d bytes", len(long), len(s.Name))
		}
	}
}

// What there are too many of is dropped and counted. A flush sends the rest in several requests.
func TestAFloodIsDroppedAndCounted(t *testing.T) {
	r := spantest.New(t)
	x, c := exporter(t, span.Options{Endpoint: r.URL, Limit: time.Minute})
	calls(x, 5000)
	if !c.are(0, 5000-2048) {
		t.Errorf("counted are %+v", c)
	}
	x.Flush(t.Context())
	if all := r.Requests(); len(all) != 4 || all[0].Spans != 512 || len(r.Spans()) != 2048 || !c.are(2048, 5000-2048) {
		t.Errorf("%d requests, %d spans, counted are %+v", len(all), len(r.Spans()), c)
	}
}

// A receiver that rejects some spans says so, and these count as dropped.
func TestRejectedSpansAreCounted(t *testing.T) {
	for _, answer := range []string{`{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}`, `{"partialSuccess":{"rejectedSpans":3}}`} {
		r := spantest.New(t)
		r.Answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }
		x, c := exporter(t, span.Options{Endpoint: r.URL})
		calls(x, 10)
		x.Flush(t.Context())
		if !c.are(7, 3) {
			t.Errorf("%s: counted are %+v", answer, c)
		}
	}
}

// A receiver that refuses for the moment is asked once more. A receiver that fails is left alone for a
// while, and what it did not take is dropped.
func TestAReceiverThatFailsIsLeftAlone(t *testing.T) {
	for status, requests := range map[int]int{500: 1, 400: 1, 401: 1, 302: 1, 429: 2, 502: 2, 503: 2, 504: 2} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			r := spantest.New(t)
			r.Answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
			}
			now := time.Now()
			x, c := exporter(t, span.Options{Endpoint: r.URL, Clock: func() time.Time { return now }, Limit: time.Minute})
			calls(x, 3)
			x.Flush(t.Context())
			calls(x, 2)
			x.Flush(t.Context())
			if n := len(r.Requests()); n != requests || !c.are(0, 3) {
				t.Errorf("%d requests, want %d; counted are %+v", n, requests, c)
			}
			r.Answer, now = nil, now.Add(31*time.Second)
			x.Flush(t.Context())
			if !c.are(2, 3) || len(r.Spans()) != 2 {
				t.Errorf("later counted are %+v", c)
			}
		})
	}
}

func TestARequestIsRepeatedOnce(t *testing.T) {
	r := spantest.New(t)
	first := true
	r.Answer = func(w http.ResponseWriter, _ *http.Request) {
		if first {
			first = false
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	x, c := exporter(t, span.Options{Endpoint: r.URL, Limit: time.Minute})
	calls(x, 3)
	x.Flush(t.Context())
	if all := r.Requests(); len(all) != 2 || all[0].Body != all[1].Body || !c.are(3, 0) {
		t.Errorf("%d requests, counted are %+v", len(all), c)
	}
}

// A receiver that does not answer, or is not there, delays by the limit at most, and by half of the time
// that is left.
func TestAReceiverThatHangs(t *testing.T) {
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(release) })
	for name, c := range map[string]struct {
		url   string
		limit time.Duration
		left  time.Duration // of the caller's time; 0: it has no end
		least time.Duration
	}{
		"hangs":            {hangs.URL, 0, time.Minute, 900 * time.Millisecond},
		"hangs, no limit":  {hangs.URL, 0, 0, 900 * time.Millisecond},
		"hangs, near end":  {hangs.URL, time.Hour, 4 * time.Second, 0},
		"is not there":     {"http://127.0.0.1:1", time.Hour, time.Minute, 0},
		"the time is over": {hangs.URL, time.Hour, -time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, _ := exporter(t, span.Options{Endpoint: c.url, Limit: c.limit})
			calls(x, 3)
			ctx := t.Context()
			if c.left != 0 {
				limited, cancel := context.WithTimeout(ctx, c.left)
				defer cancel()
				ctx = limited
			}
			begun := time.Now()
			x.Flush(ctx)
			if took := time.Since(begun); took < c.least || took > 30*time.Second || c.left > 0 && ctx.Err() != nil {
				t.Errorf("it takes %s, the caller's time: %v", took, ctx.Err())
			}
		})
	}
}

// In the background, spans are sent without being asked for, and the rest when the process ends.
func TestKeep(t *testing.T) {
	r := spantest.New(t)
	x, c := exporter(t, span.Options{Endpoint: r.URL, Limit: time.Minute})
	ctx, end := context.WithCancel(t.Context())
	var kept sync.WaitGroup
	kept.Go(func() { x.Keep(ctx) })
	calls(x, 600)
	for limit := time.Now().Add(10 * time.Second); !c.are(600, 0); {
		if time.Now().After(limit) {
			t.Fatalf("counted are %+v", c)
		}
		time.Sleep(time.Millisecond)
	}
	calls(x, 1)
	end()
	kept.Wait()
	if !c.are(601, 0) {
		t.Errorf("counted are %+v", c)
	}
}

const (
	parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	xray   = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
)

// A root is linked to what valid headers name. Nothing else is.
func TestLinks(t *testing.T) {
	w3c := spantest.Link{Trace: "0af7651916cd43dd8448eb211c80319c", Span: "b7ad6b7169203331", Flags: 0x301}
	amazon := spantest.Link{Trace: "5759e988bd862e3fe1be46a994272793", Span: "53995c3f42cd8ad8", Flags: 0x301}
	unsampled := w3c
	unsampled.Flags = 0x300
	for name, c := range map[string]struct {
		headers http.Header
		want    []spantest.Link
	}{
		"none":               {nil, nil},
		"both":               {http.Header{"Traceparent": {parent}, "X-Amzn-Trace-Id": {xray}}, []spantest.Link{w3c, amazon}},
		"not sampled":        {http.Header{"Traceparent": {parent[:53] + "02"}}, []spantest.Link{unsampled}},
		"a version to come":  {http.Header{"Traceparent": {"cc" + parent[2:] + "-what-comes"}}, []spantest.Link{w3c}},
		"with more fields":   {http.Header{"X-Amzn-Trace-Id": {"Self=1-6789-1245;" + xray + ";Lineage=a:0"}}, []spantest.Link{amazon}},
		"twice":              {http.Header{"Traceparent": {parent, parent}}, nil},
		"version 0 and more": {http.Header{"Traceparent": {parent + "-00"}}, nil},
		"version ff":         {http.Header{"Traceparent": {"ff" + parent[2:]}}, nil},
		"upper case":         {http.Header{"Traceparent": {strings.ToUpper(parent)}}, nil},
		"trace of zeros":     {http.Header{"Traceparent": {"00-" + strings.Repeat("0", 32) + parent[35:]}}, nil},
		"span of zeros":      {http.Header{"Traceparent": {parent[:36] + strings.Repeat("0", 16) + "-01"}}, nil},
		"no digits":          {http.Header{"Traceparent": {"00-0xf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}, nil},
		"too short":          {http.Header{"Traceparent": {parent[:54]}}, nil},
		"other separators":   {http.Header{"Traceparent": {strings.ReplaceAll(parent, "-", "_")}}, nil},
		"a future without -": {http.Header{"Traceparent": {"cc" + parent[2:] + "what-comes"}}, nil},
		"a space":            {http.Header{"Traceparent": {parent + " "}}, nil},
		"empty":              {http.Header{"Traceparent": {""}, "X-Amzn-Trace-Id": {""}}, nil},
		"root alone":         {http.Header{"X-Amzn-Trace-Id": {"Root=1-5759e988-bd862e3fe1be46a994272793"}}, nil},
		"two roots":          {http.Header{"X-Amzn-Trace-Id": {xray + ";" + xray}}, nil},
		"version 2":          {http.Header{"X-Amzn-Trace-Id": {strings.Replace(xray, "1-", "2-", 1)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := spantest.New(t)
			x, _ := exporter(t, span.Options{Endpoint: r.URL})
			x.Handler(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				x.Run(req.Context(), span.Run{Trace: hb, Execution: "e1"}).End()
				x.Run(req.Context(), span.Run{Trace: hb, Execution: "e2", Parent: "e1"}).End()
			})).ServeHTTP(httptest.NewRecorder(), &http.Request{Header: c.headers})
			x.Flush(t.Context())
			all := r.Spans()
			if len(all) != 2 || !reflect.DeepEqual(all[0].Links, c.want) || all[1].Links != nil {
				t.Errorf("it is %+v", all)
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	for in, want := range map[string]map[string]string{
		"":                                 {},
		"api-key=k":                        {"Api-Key": "k"},
		" api-key = k , x=a%20b%2Cc%3D ,,": {"Api-Key": "k", "X": "a b,c="},
		"authorization=Basic%20dTpw==":     {"Authorization": "Basic dTpw=="},
		"x=":                               {"X": ""},
	} {
		if got, err := span.ParseHeaders(in); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %q, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"hunter2", "=hunter2", "a b=hunter2", "x=hunter2%0A", "x=hunter2%", "ä=hunter2", "x=hunter2ä", "content-type=hunter2", "host=hunter2",
	} {
		if got, err := span.ParseHeaders(in); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q is %q, %v", in, got, err)
		}
	}
}

// A failure is logged once, without the URL and the headers.
func TestAFailureIsLogged(t *testing.T) {
	var log strings.Builder
	x, _ := exporter(t, span.Options{
		Endpoint: "http://127.0.0.1:1/hunter2", Headers: map[string]string{"Api-Key": "hunter2"}, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	calls(x, 3)
	x.Flush(t.Context())
	calls(x, 3)
	x.Flush(t.Context())
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || strings.Contains(got, "hunter2") {
		t.Errorf("the log is %q", got)
	}
}

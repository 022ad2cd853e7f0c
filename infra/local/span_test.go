package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/span/spantest"
)

// The local runner sends spans while it runs, and the last ones when it ends. A turn that came with a
// traceparent is linked to it. Verbs that run something send what they have made.
func TestSpansOfTheLocalRunner(t *testing.T) {
	r := spantest.New(t)
	h := newHome(t, "DEMO=1", "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=hunter2-hunter2")
	d := h.dev()
	url, token, first := d.started()
	root := func(trace string) (found spantest.Span) {
		for _, s := range r.Spans() {
			if s.Parent == "" && s.Attributes["lanekeeper.trace_id"] == trace {
				found = s
			}
		}
		return found
	}
	eventually(t, func() bool { return root(first).Name == "invoke_agent flowpilot" })

	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	said := strings.NewReader(`{"message": "Please remember that the door is blue"}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/operate", said)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Traceparent": {parent}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	id := resp.Header.Get("X-Trace-Id")
	_ = resp.Body.Close()
	if code := d.end(); code != 0 {
		t.Fatalf("it ends with %d\n%s", code, d)
	}
	if s := root(id); len(s.Links) != 1 || s.Links[0].Span != "b7ad6b7169203331" || s.Attributes["lanekeeper.surface"] != "operate" ||
		s.Resource["service.name"] != "lanekeeper" {
		t.Errorf("the root of the turn is %+v", s)
	}
	var turn []spantest.Span
	for _, s := range r.Spans() {
		if s.Attributes["lanekeeper.trace_id"] == id {
			turn = append(turn, s)
		}
	}
	if tree := spantest.Outline(t, turn); !strings.Contains(tree, "  chat demo\n  execute_tool save_memory\n  chat demo") {
		t.Errorf("the turn is\n%s", tree)
	}
	before := len(r.Spans())
	h.must(0, "ask", "What can you do?")
	if len(r.Spans()) == before {
		t.Error("a question on the command line has no spans")
	}
	for _, text := range []string{d.out.String(), d.errs.String(), h.must(0, "config").out, h.do("doctor").out} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a header is shown in\n%s", text)
		}
	}
	if got := r.Requests()[0].Header.Get("Api-Key"); got != "hunter2-hunter2" {
		t.Errorf("the header is %q", got)
	}
}

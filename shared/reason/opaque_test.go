package reason_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// TestAModelThatThinksGetsItsThoughtsBack: a server refuses a conversation without the opaque data
// of its calls. The run sends them, even after it is resumed from its journal.
func TestAModelThatThinksGetsItsThoughtsBack(t *testing.T) {
	const thought = `"reasoning_content":"First I <note> it. \" Äh."`
	onEach(t, func(t *testing.T, w *world) {
		server := llmtest.Serve(t,
			llmtest.JSON(http.StatusOK, `{"choices":[{"index":0,"message":{"content":null,`+thought+
				`,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"echo_back","arguments":"{\"text\":\"x\"}"}}]},"finish_reason":"tool_calls"}]}`),
			func(rw http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				if !bytes.Contains(body, []byte(thought)) {
					llmtest.JSON(http.StatusBadRequest, `{"error":{"message":"Missing reasoning_content in the assistant message","type":"invalid_request_error"}}`)(rw, r)
					return
				}
				llmtest.JSON(http.StatusOK, `{"choices":[{"index":0,"message":{"content":"Noted."},"finish_reason":"stop"}]}`)(rw, r)
			})
		m, err := openai.New(openai.Options{BaseURL: server.URL, Model: "thinker", HTTP: server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		job := w.job(t, echo())
		first := job
		first.Stops = []reason.Stop{reason.MaxSteps(1)}
		w.run(t, m, first)
		if out := w.run(t, m, job); out.Status != execution.Completed || out.Answer != "Noted." {
			t.Errorf("it is %s: %s", out.Status, out.Reason)
		}
	})
}

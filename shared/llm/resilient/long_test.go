package resilient_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
)

// babble is a stream without an end.
type babble struct{ rest string }

func (b *babble) Read(p []byte) (int, error) {
	if b.rest == "" {
		b.rest = "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("word ", 100_000) + "\"}}]}\n\n"
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// TestAnAnswerThatIsTooLongIsPaidForOnce: a retry or a fallback would be as long again.
func TestAnAnswerThatIsTooLongIsPaidForOnce(t *testing.T) {
	asked := 0
	p, err := openai.New(openai.Options{BaseURL: "http://model.test/v1", Model: "long", HTTP: doer(func(*http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(&babble{})}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	q := provider("second", say("hi"))
	resp, err := chain(t, nil, resilient.Provider{Model: p}, resilient.Provider{Model: q}).For("ws").Generate(t.Context(), request, nil)
	if llm.ClassOf(err) != llm.ClassBadRequest || asked != 1 || q.times() != 0 || resp.Lost.CompletionTokens < 1<<20 {
		t.Errorf("asked %d times, used %+v: %v", asked, resp.Lost, err)
	}
}

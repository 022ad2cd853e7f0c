package resilient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/anthropic"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// slow is the body of an answer that delivers one piece per interval.
type slow struct {
	ctx    context.Context
	pieces []string
	every  time.Duration
	hangs  bool // it never ends
	rest   string
}

func (s *slow) Read(p []byte) (int, error) {
	if s.rest == "" && len(s.pieces) == 0 && s.hangs {
		<-s.ctx.Done()
	}
	if s.rest == "" && len(s.pieces) > 0 {
		select {
		case <-s.ctx.Done():
		case <-time.After(s.every):
			s.rest, s.pieces = s.pieces[0], s.pieces[1:]
		}
	}
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *slow) Close() error { return nil }

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// slowly returns a model over HTTP that streams pieces of thinking, then pieces of the answer, one
// per interval.
func slowly(t *testing.T, every time.Duration, thoughts, words int, hangs bool) (m llm.Model, asked *int) {
	t.Helper()
	asked = new(int)
	m, err := openai.New(openai.Options{BaseURL: "http://model.test/v1", Model: "slow", HTTP: doer(func(r *http.Request) (*http.Response, error) {
		*asked++
		body := &slow{ctx: r.Context(), every: every, hangs: hangs}
		say := func(delta string) {
			body.pieces = append(body.pieces, fmt.Sprintf("data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta))
		}
		for range thoughts {
			say(`{"reasoning_content":"hm"}`)
		}
		for range words {
			say(`{"content":"word"}`)
		}
		if !hangs {
			body.pieces = append(body.pieces, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return m, asked
}

// TestWhoHasMuchToSayHasTheTime: also for thinking, and also without a listener.
func TestWhoHasMuchToSayHasTheTime(t *testing.T) {
	for name, listens := range map[string]bool{"streamed": true, "whole": false} {
		bubble(t, name, func(t *testing.T) {
			p, asked := slowly(t, time.Second, 100, 200, false)
			var streamed strings.Builder
			var listener func(llm.Delta)
			if listens {
				listener = func(d llm.Delta) {
					if d == (llm.Delta{}) {
						t.Error("a thought was passed on")
					}
					streamed.WriteString(d.Text)
				}
			}
			var resp llm.Response
			var err error
			d := took(func() {
				resp, err = chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, listener)
			})
			want := strings.Repeat("word", 200)
			if err != nil || resp.Text != want || listens && streamed.String() != want || *asked != 1 || d != 301*time.Second {
				t.Errorf("asked %d times, after %s: %d characters, %v", *asked, d, len(resp.Text), err)
			}
			if resp.Usage != (llm.Usage{}) { // the loop estimates usage that a model does not report
				t.Errorf("it used %+v", resp.Usage)
			}
		})
	}
}

// TestKeepalivesAreNoSilence: a model that thinks for long says nothing, and its server that it works.
func TestKeepalivesAreNoSilence(t *testing.T) {
	models := map[string]func(wire.Doer) (llm.Model, error){
		"openai": func(d wire.Doer) (llm.Model, error) {
			return openai.New(openai.Options{BaseURL: "http://model.test/v1", Model: "m", HTTP: d})
		},
		"anthropic": func(d wire.Doer) (llm.Model, error) {
			return anthropic.New(anthropic.Options{BaseURL: "http://model.test", Model: "m", HTTP: d})
		},
	}
	const (
		said  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
		ended = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"
	)
	for name, c := range map[string]struct{ model, alive, end string }{
		"comments":           {"openai", ": OPENROUTER PROCESSING\n\n", said},
		"pieces of nothing":  {"openai", "data: {\"choices\":[]}\n\n", said},
		"pings":              {"anthropic", "event: ping\ndata: {\"type\": \"ping\"}\n\n", ended},
		"a proxy's comments": {"anthropic", ": keep-alive\n\n", ended},
	} {
		bubble(t, name, func(t *testing.T) {
			asked := 0
			p, err := models[c.model](doer(func(r *http.Request) (*http.Response, error) {
				asked++
				body := &slow{ctx: r.Context(), every: time.Minute, pieces: append(slices.Repeat([]string{c.alive}, 9), c.end)}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			d := took(func() {
				_, err = chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, nil)
			})
			if err != nil || asked != 1 || d != 10*time.Minute {
				t.Errorf("asked %d times, after %s: %v", asked, d, err)
			}
		})
	}
}

// TestSilenceEndsATry, and the pieces before the silence are paid for.
func TestSilenceEndsATry(t *testing.T) {
	for name, listens := range map[string]bool{"streamed": true, "whole": false} {
		bubble(t, name, func(t *testing.T) {
			p, asked := slowly(t, time.Second, 0, 100, true)
			var listener func(llm.Delta)
			if listens {
				listener = func(llm.Delta) {}
			}
			var resp llm.Response
			var err error
			d := took(func() {
				resp, err = chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, listener)
			})
			if llm.ClassOf(err) != llm.ClassTimeout || !strings.Contains(err.Error(), "nothing came for 1m30s") || *asked != 3 || d != 3*190*time.Second {
				t.Errorf("asked %d times, after %s: %v", *asked, d, err)
			}
			if u := resp.Lost; u.CompletionTokens != 3*100 || u.PromptTokens == 0 || resp.Text != "" {
				t.Errorf("beside the error: %+v", resp)
			}
		})
	}
}

// TestTheCallersTimeEndsASlowAnswer all the same.
func TestTheCallersTimeEndsASlowAnswer(t *testing.T) {
	bubble(t, "slow", func(t *testing.T) {
		p, asked := slowly(t, time.Second, 0, 1000, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := chain(t, nil, resilient.Provider{Model: p})
		var resp llm.Response
		var err error
		d := took(func() { resp, err = w.For("ws").Generate(ctx, request, nil) })
		if llm.ClassOf(err) != llm.ClassTimeout || d != time.Minute || *asked != 1 || resp.Lost.CompletionTokens == 0 {
			t.Errorf("asked %d times, after %s: %+v, %v", *asked, d, resp, err)
		}
	})
}

package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
)

var errCause = errors.New("too bad")

var request = llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "go"}}}

// retryable are the classes that are retried.
var retryable = []llm.ErrorClass{llm.ClassRateLimit, llm.ClassOverloaded, llm.ClassUnavailable, llm.ClassTimeout}

var lasting = []llm.ErrorClass{llm.ClassAuthentication, llm.ClassBilling}

// final are classes that concern the request: no other provider is asked.
var final = []llm.ErrorClass{llm.ClassBadRequest, llm.ClassContextTooLong, llm.ClassRefused, llm.ClassCanceled}

// bubble runs fn with simulated time.
func bubble(t *testing.T, name string, fn func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, fn) })
}

// took returns the duration of fn.
func took(fn func()) time.Duration {
	begun := time.Now()
	fn()
	return time.Since(begun)
}

func longest(c *resilient.Config) { c.Rand = func() float64 { return 1 } }

func TestAnAnswerPasses(t *testing.T) {
	p := provider("first", say("hi"))
	w := chain(t, nil, resilient.Provider{Model: p, ID: "small"})
	m := w.For("ws")
	streamed := ""
	resp, err := m.Generate(t.Context(), request, func(d llm.Delta) { streamed += d.Text })
	if err != nil || resp.Text != "hi" || streamed != "hi" || resp.Model != "model-of-hi" || m.Name() != "first" {
		t.Errorf("%s answered %+v, %v, streamed %q", m.Name(), resp, err, streamed)
	}
	asked := request
	asked.Model = "large"
	if _, err := m.Generate(t.Context(), asked, nil); err != nil || !slices.Equal(p.models(), []string{"small", "large"}) {
		t.Errorf("asked for %q, %v", p.models(), err)
	}
	for _, c := range w.observed() {
		if c.Workspace != "ws" || c.Provider != "first" || c.Model != "model-of-hi" || c.Tries != 1 || c.Err != nil || c.Usage.TotalTokens() != 5 || c.Fallback {
			t.Errorf("observed %+v", c)
		}
	}
}

func TestWhatIsRetryableIsTriedThreeTimes(t *testing.T) {
	for _, class := range retryable {
		bubble(t, string(class), func(t *testing.T) {
			p := provider("first", fail(class))
			w := chain(t, longest, resilient.Provider{Model: p})
			var err error
			d := took(func() { _, err = w.For("ws").Generate(t.Context(), request, nil) })
			if llm.ClassOf(err) != class || !errors.Is(err, errCause) || p.times() != 3 || d != 1500*time.Millisecond {
				t.Errorf("after %s: %v", d, err)
			}
			if c := w.observed(); len(c) != 1 || c[0].Tries != 3 || c[0].Class != class || c[0].Took != d || !errors.Is(c[0].Err, errCause) {
				t.Errorf("observed %+v", c)
			}
			p.does(fail(class), fail(class), say("hi"))
			if resp, err := w.For("ws").Generate(t.Context(), request, nil); err != nil || resp.Text != "hi" || p.times() != 3 {
				t.Errorf("the third time: %+v, %v", resp, err)
			}
		})
	}
}

func TestWhatIsNotRetryableIsTriedOnce(t *testing.T) {
	for _, class := range slices.Concat(lasting, final) {
		bubble(t, string(class), func(t *testing.T) {
			p := provider("first", fail(class))
			var err error
			d := took(func() {
				_, err = chain(t, longest, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, nil)
			})
			if llm.ClassOf(err) != class || p.times() != 1 || d != 0 {
				t.Errorf("after %s: %v", d, err)
			}
		})
	}
	p := provider("first", func(context.Context, func(llm.Delta)) (llm.Response, error) { return llm.Response{}, errCause })
	_, err := chain(t, nil, resilient.Provider{Model: p}, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, nil)
	if !errors.Is(err, errCause) || p.times() != 1 {
		t.Errorf("an error of no class: %v", err)
	}
}

// Waits double up to a limit, and are drawn at random between zero and that.
func TestBackoff(t *testing.T) {
	for name, c := range map[string]struct {
		draw float64
		want time.Duration
	}{
		"nothing": {0, 0}, "half": {0.5, (1 + 2 + 4 + 8 + 8) * time.Second / 4}, "all": {1, (1 + 2 + 4 + 8 + 8) * time.Second / 2},
	} {
		bubble(t, name, func(t *testing.T) {
			p := provider("first", fail(llm.ClassOverloaded))
			w := chain(t, func(cfg *resilient.Config) {
				cfg.Tries, cfg.MaxBackoff, cfg.Rand = 6, 4*time.Second, func() float64 { return c.draw }
			}, resilient.Provider{Model: p})
			if d := took(func() { _, _ = w.For("ws").Generate(t.Context(), request, nil) }); d != c.want || p.times() != 6 {
				t.Errorf("took %s, want %s", d, c.want)
			}
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	bubble(t, "short", func(t *testing.T) {
		p := provider("first", fail(llm.ClassRateLimit, 20*time.Second), say("hi"))
		d := took(func() {
			if _, err := chain(t, longest, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, nil); err != nil {
				t.Error(err)
			}
		})
		if d != 20500*time.Millisecond {
			t.Errorf("waited %s", d)
		}
	})
	bubble(t, "longer than anybody waits", func(t *testing.T) {
		p := provider("first", fail(llm.ClassRateLimit, 31*time.Second))
		var err error
		d := took(func() {
			_, err = chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, nil)
		})
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != llm.ClassRateLimit || e.RetryAfter != 31*time.Second || d != 0 || p.times() != 1 {
			t.Errorf("after %s: %v", d, err)
		}
	})
	bubble(t, "while another could be asked", func(t *testing.T) {
		p, q := provider("first", fail(llm.ClassRateLimit, 6*time.Second)), provider("second", say("hi"))
		d := took(func() {
			_, err := chain(t, nil, resilient.Provider{Model: p}, resilient.Provider{Model: q}).For("ws").Generate(t.Context(), request, nil)
			if err != nil {
				t.Error(err)
			}
		})
		if d != 0 || p.times() != 1 || q.times() != 1 {
			t.Errorf("waited %s", d)
		}
	})
}

// A wait that ends too close to the deadline is not begun.
func TestADeadlineThatIsTooNear(t *testing.T) {
	for name, c := range map[string]struct {
		deadline, after time.Duration
		tries           int
	}{
		"enough":       {12 * time.Second, 10 * time.Second, 2},
		"just enough":  {11 * time.Second, 10 * time.Second, 2},
		"too near":     {11*time.Second - 1, 10 * time.Second, 1},
		"much too":     {2 * time.Second, 10 * time.Second, 1},
		"no time left": {time.Second / 2, 0, 1},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			p := provider("first", fail(llm.ClassRateLimit, c.after), say("hi"))
			var err error
			d := took(func() { _, err = chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(ctx, request, nil) })
			want := llm.ErrorClass("")
			if c.tries == 1 {
				want = llm.ClassRateLimit
			}
			if llm.ClassOf(err) != want || p.times() != c.tries || c.tries == 1 && d != 0 {
				t.Errorf("after %s: %v", d, err)
			}
		})
	}
}

func TestATryHasItsTime(t *testing.T) {
	bubble(t, "one provider", func(t *testing.T) {
		p := provider("first", hang, hang, say("hi"))
		d := took(func() {
			if resp, err := chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, nil); err != nil || resp.Text != "hi" {
				t.Errorf("got %+v, %v", resp, err)
			}
		})
		if d != 180*time.Second {
			t.Errorf("took %s", d)
		}
	})
	bubble(t, "all silent", func(t *testing.T) {
		p := provider("first", hang)
		_, err := chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), request, nil)
		if llm.ClassOf(err) != llm.ClassTimeout || t.Context().Err() != nil {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "two providers", func(t *testing.T) { // the second provider gets the remaining time
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		p, q := provider("first", hang), provider("second", say("hi"))
		resp, err := chain(t, nil, resilient.Provider{Model: p}, resilient.Provider{Model: q}).For("ws").Generate(ctx, request, nil)
		if err != nil || resp.Text != "hi" || p.times() != 1 {
			t.Errorf("got %+v, %v", resp, err)
		}
	})
}

func TestACallEndsWithItsContext(t *testing.T) {
	bubble(t, "deadline, while asking", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		p, q := provider("first", hang), provider("second", say("hi"))
		w := chain(t, nil, resilient.Provider{Model: p}, resilient.Provider{Model: q})
		var err error
		var resp llm.Response
		d := took(func() { resp, err = w.For("ws").Generate(ctx, request, nil) })
		if llm.ClassOf(err) != llm.ClassTimeout || d != 10*time.Second || len(w.observed()) != 1 {
			t.Errorf("after %s: %v", d, err)
		}
		if lost := resp.Lost; lost.PromptTokens == 0 || lost.CompletionTokens != 0 || !lost.Estimated { // it has read the question
			t.Errorf("it used %+v", lost)
		}
	})
	bubble(t, "canceled, while waiting", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		lost := errors.New("lost the lane")
		time.AfterFunc(3*time.Second, func() { cancel(lost) })
		p := provider("first", fail(llm.ClassRateLimit, 20*time.Second))
		var err error
		d := took(func() { _, err = chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(ctx, request, nil) })
		if llm.ClassOf(err) != llm.ClassCanceled || !errors.Is(err, lost) || d != 3*time.Second {
			t.Errorf("after %s: %v", d, err)
		}
	})
	bubble(t, "before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := provider("first", say("hi"))
		if _, err := chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(ctx, request, nil); llm.ClassOf(err) != llm.ClassCanceled || p.times() != 0 {
			t.Errorf("got %v", err)
		}
	})
}

// A fallback is asked for its own model, if it may succeed, and not if the request caused the
// failure.
func TestFallback(t *testing.T) {
	for _, class := range slices.Concat(retryable, lasting, final) {
		bubble(t, string(class), func(t *testing.T) {
			p, q := provider("first", fail(class)), provider("second", say("hi"))
			w := chain(t, nil, resilient.Provider{Model: p, ID: "p"}, resilient.Provider{Model: q, ID: "q"})
			asked := request
			asked.Model = "asked for"
			resp, err := w.For("ws").Generate(t.Context(), asked, nil)
			if slices.Contains(final, class) {
				if llm.ClassOf(err) != class || q.times() != 0 {
					t.Errorf("got %+v, %v", resp, err)
				}
				return
			}
			if err != nil || resp.Model != "model-of-hi" || !slices.Equal(q.models(), []string{"q"}) || p.models()[0] != "asked for" {
				t.Errorf("got %+v, %v", resp, err)
			}
			calls := w.observed()
			if len(calls) != 2 || calls[0].Class != class || calls[0].Fallback || calls[0].Model != "asked for" ||
				calls[1].Provider != "second" || !calls[1].Fallback || calls[1].Err != nil || calls[1].Tries != 1 {
				t.Errorf("observed %+v", calls)
			}
		})
	}
}

// TestNobodyFallsBackToWhatIsSwitchedOff, nor if this can't be determined.
func TestNobodyFallsBackToWhatIsSwitchedOff(t *testing.T) {
	first, second, third := provider("first", fail(llm.ClassBilling)), provider("second", say("second")), provider("third", say("third"))
	stopped := "large"
	var unknown error
	w := chain(t, func(c *resilient.Config) {
		c.Stopped = func(_ context.Context, ws db.Workspace, models ...string) (string, error) {
			if ws == "ws" && slices.Contains(models, stopped) {
				return "switched off", unknown
			}
			return "", unknown
		}
	}, resilient.Provider{Model: first, ID: "small"}, resilient.Provider{Model: second, ID: "large"}, resilient.Provider{Model: third, ID: "larger"})
	ask := func(want string, asked int) {
		t.Helper()
		resp, err := w.For("ws").Generate(t.Context(), request, nil)
		if resp.Text != want || (err == nil) != (want != "") || second.times() != asked {
			t.Errorf("with %s switched off: %+v, %v", stopped, resp, err)
		}
	}
	ask("third", 0)
	stopped = "second" // the provider's name
	ask("third", 0)
	stopped = "small" // the first choice is not checked here
	ask("second", 1)
	unknown = errCause
	ask("", 0)
}

func TestWhenNobodyAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		first, second step
		class         llm.ErrorClass
		provider      string
	}{
		"the one that passes":         {fail(llm.ClassAuthentication), fail(llm.ClassUnavailable), llm.ClassUnavailable, "second"},
		"the one that passes first":   {fail(llm.ClassRateLimit, time.Minute), fail(llm.ClassOverloaded, 40*time.Second), llm.ClassOverloaded, "second"},
		"the first of equals":         {fail(llm.ClassOverloaded), fail(llm.ClassUnavailable), llm.ClassOverloaded, "first"},
		"the one that can be helped":  {fail(llm.ClassBilling), fail(llm.ClassContextTooLong), llm.ClassContextTooLong, "second"},
		"not what is the second's":    {fail(llm.ClassUnavailable), fail(llm.ClassBadRequest), llm.ClassUnavailable, "first"},
		"the first of what lasts":     {fail(llm.ClassBilling), fail(llm.ClassAuthentication), llm.ClassBilling, "first"},
		"the first where none passes": {fail(llm.ClassAuthentication), fail(llm.ClassBadRequest), llm.ClassAuthentication, "first"},
	} {
		bubble(t, name, func(t *testing.T) {
			w := chain(t, nil, resilient.Provider{Model: provider("first", c.first)}, resilient.Provider{Model: provider("second", c.second)})
			_, err := w.For("ws").Generate(t.Context(), request, nil)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Class != c.class || e.Provider != c.provider || !errors.Is(err, errCause) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// reader collects an answer. A restart voids its pieces.
type reader struct {
	text     string
	restarts int
}

func (r *reader) read(d llm.Delta) {
	if d.Restart {
		r.text, r.restarts = "", r.restarts+1
	}
	r.text += d.Text
}

// An interrupted answer is retried, or another model is asked, and the caller gets one complete
// answer.
func TestAnAnswerThatBreaksOffBeginsAnew(t *testing.T) {
	ask := func(t *testing.T, restarts int, want string, providers ...*fake) {
		t.Helper()
		var chained []resilient.Provider
		for i, p := range providers {
			chained = append(chained, resilient.Provider{Model: p, Circuit: fmt.Sprint(i)})
		}
		var r reader
		resp, err := chain(t, nil, chained...).For("ws").Generate(t.Context(), request, r.read)
		if err != nil || r.text != want || resp.Text != want || r.restarts != restarts {
			t.Errorf("streamed %q with %d restarts, answered %q, %v", r.text, r.restarts, resp.Text, err)
		}
	}
	for _, class := range retryable {
		bubble(t, string(class), func(t *testing.T) {
			ask(t, 2, "whole", provider("first", breakOff(class), breakOff(class), say("whole")))
			ask(t, 1, "whole", provider("first", fail(class), breakOff(class), say("whole")))
		})
	}
	for _, class := range slices.Concat(retryable, lasting) {
		bubble(t, "fallback, "+string(class), func(t *testing.T) {
			tries := 3
			if !class.Retryable() || class == llm.ClassTimeout { // for these, the next model is asked immediately
				tries = 1
			}
			ask(t, tries, "whole", provider("first", breakOff(class)), provider("second", say("whole")))
			ask(t, 0, "whole", provider("first", fail(class)), provider("second", say("whole")))
		})
	}
	for _, class := range final {
		bubble(t, "final, "+string(class), func(t *testing.T) {
			p, q := provider("first", breakOff(class)), provider("second", say("whole"))
			var r reader
			_, err := chain(t, nil, resilient.Provider{Model: p}, resilient.Provider{Model: q}).For("ws").Generate(t.Context(), request, r.read)
			if llm.ClassOf(err) != class || r.restarts != 0 || p.times() != 1 || q.times() != 0 {
				t.Errorf("streamed %q with %d restarts: %v", r.text, r.restarts, err)
			}
		})
	}
}

// TestWhatBrokeOffIsToldApart from the usage of the answer, with and without an answer.
func TestWhatBrokeOffIsToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		first *fake
		broke int
	}{
		"nothing":  {provider("first", fail(llm.ClassOverloaded), say("whole")), 0},
		"retry":    {provider("first", breakOff(llm.ClassOverloaded), breakOff(llm.ClassOverloaded), say("whole")), 2},
		"fallback": {provider("first", breakOff(llm.ClassTimeout)), 1},
	} {
		bubble(t, name, func(t *testing.T) {
			resp, err := chain(t, nil, resilient.Provider{Model: c.first, Circuit: "1"}, resilient.Provider{Model: provider("second", say("whole"))}).
				For("ws").Generate(t.Context(), request, nil)
			if err != nil || resp.Usage != (llm.Usage{PromptTokens: 3, CompletionTokens: 2}) {
				t.Errorf("the answer used %+v, %v", resp.Usage, err)
			}
			if lost := resp.Lost; lost.CompletionTokens != c.broke || lost.Estimated != (c.broke > 0) || (lost.PromptTokens > 0) != (c.broke > 0) {
				t.Errorf("what broke off used %+v", lost)
			}
			if used := resp.Used(); used.TotalTokens() != resp.Usage.TotalTokens()+resp.Lost.TotalTokens() || used.Estimated != resp.Lost.Estimated {
				t.Errorf("together they used %+v", used)
			}
		})
	}
}

// For any behavior of the providers, a call fulfills its contract.
func TestPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			steps := rapid.OneOf(
				rapid.Map(rapid.SampledFrom(slices.Concat(retryable, lasting, final)), func(c llm.ErrorClass) step { return fail(c) }),
				rapid.Map(rapid.SampledFrom(retryable), func(c llm.ErrorClass) step { return fail(c, 3*time.Second) }),
				rapid.Map(rapid.SampledFrom(retryable), breakOff),
				rapid.SampledFrom([]step{say("whole"), hang}),
			)
			var providers []resilient.Provider
			var fakes []*fake
			for range rapid.IntRange(1, 3).Draw(rt, "providers") {
				f := provider("p", rapid.SliceOfN(steps, 1, 5).Draw(rt, "steps")...)
				fakes, providers = append(fakes, f), append(providers, resilient.Provider{Model: f})
			}
			limit := time.Duration(rapid.IntRange(1, 200).Draw(rt, "seconds")) * time.Second
			random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			w := chain(t, func(c *resilient.Config) { c.Rand = random.Float64 }, providers...)
			var onDelta func(llm.Delta)
			var r reader
			if rapid.Bool().Draw(rt, "streams") {
				onDelta = r.read
			}
			var resp llm.Response
			var err error
			d := took(func() { resp, err = w.For("ws").Generate(ctx, request, onDelta) })
			if d > limit {
				rt.Errorf("took %s of %s", d, limit)
			}
			for _, f := range fakes {
				if n := f.times(); n > 3 {
					rt.Errorf("one was asked %d times", n)
				}
			}
			if _, ok := errors.AsType[*llm.Error](err); err != nil && !ok || err == nil && (resp.Text != "whole" || onDelta != nil && r.text != "whole") ||
				err != nil && r.text != "" && r.text != "half" {
				rt.Errorf("got %+v, %v, streamed %q", resp, err, r.text)
			}
			tries := 0
			for _, c := range w.observed() {
				tries += c.Tries
			}
			if tries == 0 {
				rt.Error("nothing was observed")
			}
		})
	})
}

func TestAChainNeedsItsParts(t *testing.T) {
	for name, cfg := range map[string]resilient.Config{
		"models": {Clock: time.Now}, "clock and more": {Providers: []resilient.Provider{{Model: provider("p")}}},
	} {
		if _, err := resilient.New(cfg); err == nil {
			t.Errorf("no %s: no error", name)
		}
	}
}

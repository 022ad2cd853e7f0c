package resilient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Model is a [Chain] as one model. It is safe for concurrent use.
type Model struct {
	cfg     *Config
	breaker breaker
}

var _ llm.Model = (*Model)(nil)

// Name implements [llm.Model]. It is the name of the first model.
func (m *Model) Name() string { return m.cfg.Providers[0].Model.Name() }

// Paused says why no model is asked now, and how to resume: each model needs a person to fix the
// key or the bill. It returns "" if at least one model may be asked.
func (m *Model) Paused(ctx context.Context) string {
	targets := m.cfg.targets(llm.Request{})
	m.breaker.read(ctx, targets)
	var why []string
	for _, t := range targets {
		c, left := m.breaker.look(t.key)
		if c.State != Paused || left <= 0 {
			return ""
		}
		why = append(why, fmt.Sprintf("%s refuses us (%s); once that is put right: bin/lanekeeper circuits delete '%s'", t.Name(), c.Class, t.key))
	}
	return strings.Join(why, "; ")
}

// ReadIn adds to a batch the reads with which the first request that names no model would begin. read is
// called after the batch was sent.
func (m *Model) ReadIn(b *db.Batch) (read func()) {
	if m.cfg.Circuits == nil {
		return func() {}
	}
	var keys []Key
	for _, t := range m.cfg.targets(llm.Request{}) {
		keys = append(keys, t.key)
	}
	asked, loaded := m.cfg.Clock(), m.cfg.Circuits.LoadIn(b, keys)
	return func() { m.breaker.note(asked, loaded()...) }
}

// Generate implements [llm.Model]. The response says which model answered. Its Lost estimates what
// interrupted tries used, also if no model answers. In that case the error is that of the provider
// that may recover soonest, and its cause holds the errors of all.
func (m *Model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := llm.Interrupted(ctx, m.Name()); err != nil {
		return llm.Response{}, err
	}
	targets := m.cfg.targets(req)
	m.breaker.read(ctx, targets)
	out := &output{onDelta: onDelta}
	var failed []error
	for i, t := range targets {
		if t.fallback && m.stopped(ctx, t) {
			continue
		}
		req.Model = t.key.Model
		resp, err := m.ask(ctx, t, req, out, targets[i+1:])
		if err == nil {
			resp.Lost = out.lost
			return resp, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			return llm.Response{Lost: out.lost}, err
		}
		if class := llm.ClassOf(err); !class.Retryable() && !lasting(class) {
			break
		}
	}
	return llm.Response{Lost: out.lost}, foremost(failed)
}

// stopped reports whether a person has switched off a fallback. If this can't be determined, the
// fallback is not asked either.
func (m *Model) stopped(ctx context.Context, t target) bool {
	if m.cfg.Stopped == nil {
		return false
	}
	why, err := m.cfg.Stopped(ctx, m.breaker.ws, t.key.Model, t.Name())
	if why != "" || err != nil {
		m.cfg.Log.WarnContext(ctx, "model not fallen back to", "provider", t.key.Provider, "model", t.key.Model, "reason", why, "error", err)
	}
	return why != "" || err != nil
}

// output passes the pieces of several tries on as one answer.
type output struct {
	onDelta func(llm.Delta) // nil: the caller does not stream
	begun   bool            // the caller has received a piece of this try
	lost    llm.Usage       // estimate of what interrupted tries used
}

func (o *output) pass(d llm.Delta) {
	if o.onDelta == nil || d == (llm.Delta{}) {
		return
	}
	o.begun = true
	o.onDelta(d)
}

// restart voids the pieces that the caller has received of the try before.
func (o *output) restart() {
	if o.begun {
		o.begun = false
		o.onDelta(llm.Delta{Restart: true})
	}
}

// ask asks one provider, with retries. rest are the providers that could be asked instead.
func (m *Model) ask(ctx context.Context, t target, req llm.Request, out *output, rest []target) (resp llm.Response, err error) {
	call := Call{Workspace: m.breaker.ws, Provider: t.Name(), Model: t.key.Model, Fallback: t.fallback}
	begun := m.cfg.Clock()
	defer func() {
		call.Class, call.Err, call.Took = llm.ClassOf(err), err, m.cfg.Clock().Sub(begun)
		m.cfg.Observe(ctx, call)
	}()
	probe, err := m.breaker.admit(ctx, t)
	if err != nil {
		return resp, err
	}
	warm := req.Temperature != nil
	if _, fixed := m.cfg.fixed.Load(t.key); fixed {
		req.Temperature, warm = nil, false
	}
	for {
		call.Tries++
		resp, err = m.try(ctx, t, req, out)
		m.breaker.learn(ctx, t, probe, err)
		if err == nil {
			if warm && req.Temperature == nil {
				m.cfg.fixed.Store(t.key, true)
			}
			call.Usage = resp.Usage
			if resp.Model != "" {
				call.Model = resp.Model
			}
			return resp, nil
		}
		if req.Temperature != nil && takesNoTemperature(err) {
			m.cfg.Log.InfoContext(ctx, "model asked again without a temperature", "provider", t.key.Provider, "model", t.key.Model)
			req.Temperature = nil
			continue
		}
		if call.Tries >= m.cfg.Tries || ctx.Err() != nil {
			return llm.Response{}, err
		}
		wait, again := m.wait(ctx, t, err, call.Tries, rest)
		if !again {
			return llm.Response{}, err
		}
		m.cfg.Log.WarnContext(ctx, "model tried again", "provider", t.key.Provider, "model", t.key.Model, "try", call.Tries+1,
			"class", llm.ClassOf(err), "wait_ms", wait.Milliseconds(), "error", err)
		if err := sleep(ctx, wait); err != nil {
			return llm.Response{}, llm.Interrupted(ctx, t.Name())
		}
	}
}

// takesNoTemperature reports whether a model has refused a request because it takes no temperature but its own.
// Providers say so in their texts only.
func takesNoTemperature(err error) bool {
	if llm.ClassOf(err) != llm.ClassBadRequest {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "temperature") &&
		(strings.Contains(text, "support") || strings.Contains(text, "deprecated") || strings.Contains(text, "only 1 is allowed"))
}

// try asks once. It streams even if the caller does not, because only the stream shows whether the
// model is still working or has fallen silent. Silence ends the try before ctx does.
func (m *Model) try(ctx context.Context, t target, req llm.Request, out *output) (llm.Response, error) {
	trying, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := &llm.Error{Class: llm.ClassTimeout, Provider: t.Name(), Err: fmt.Errorf("nothing came for %s", m.cfg.Silence)}
	timer := time.AfterFunc(m.cfg.Silence, func() { cancel(silent) })
	defer timer.Stop()
	out.restart()
	flowed, size := false, 0
	resp, err := t.Generate(trying, req, func(d llm.Delta) {
		timer.Reset(m.cfg.Silence)
		flowed, size = true, size+len(d.Text)
		if d.Call != nil {
			size += len(d.Call.Name) + len(d.Call.Arguments)
		}
		out.pass(d)
	})
	if err != nil && ctx.Err() == nil && trying.Err() != nil {
		err = silent
	}
	if err != nil && (flowed || ctx.Err() != nil) { // the model reads the question before it says a word
		out.lost = out.lost.Plus(guess(req, size))
	}
	return resp, err
}

// guess estimates what an interrupted try used, at four bytes a token.
func guess(req llm.Request, answered int) llm.Usage {
	asked, _ := json.Marshal(req) // requests always encode
	return llm.Usage{PromptTokens: len(asked) / 4, CompletionTokens: (answered + 3) / 4, Estimated: true}
}

const (
	// leastTry is the time that must be left after a wait. Otherwise a retry is not worthwhile.
	leastTry = time.Second
	// patience limits a wait for a model while another one could be asked.
	patience = 5 * time.Second
)

// wait returns how long to wait before the next try, and whether there should be one.
func (m *Model) wait(ctx context.Context, t target, err error, tries int, rest []target) (time.Duration, bool) {
	class := llm.ClassOf(err)
	if c, _ := m.breaker.look(t.key); !class.Retryable() || c.State != Closed {
		return 0, false
	}
	limit := m.cfg.MaxWait
	if slices.ContainsFunc(rest, func(t target) bool { return !m.breaker.shut(t.key) }) {
		if class == llm.ClassTimeout {
			return 0, false
		}
		limit = min(limit, patience)
	}
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, deadline.Sub(m.cfg.Clock())-leastTry)
	}
	wait := m.backoff(tries) + retryAfter(err)
	return wait, wait <= limit
}

// backoff returns a random time. Its maximum doubles with each try.
func (m *Model) backoff(tries int) time.Duration {
	longest := m.cfg.Backoff << min(tries-1, 20)
	return time.Duration(m.cfg.Rand() * float64(min(longest, m.cfg.MaxBackoff)))
}

// retryAfter returns the wait that the provider asked for, or 0.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return max(e.RetryAfter, 0)
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ctx.Err()
	}
}

// foremost returns the error of a call that failed with all providers. It prefers the retryable
// error with the shortest RetryAfter. Otherwise it takes that of the last provider if the
// conversation is too long for it, because the caller can fix that. Otherwise it takes the first
// error.
func foremost(failed []error) error {
	best := failed[0]
	if last := failed[len(failed)-1]; llm.ClassOf(last) == llm.ClassContextTooLong {
		best = last
	}
	passing := slices.DeleteFunc(slices.Clone(failed), func(err error) bool { return !llm.ClassOf(err).Retryable() })
	if len(passing) > 0 {
		best = slices.MinFunc(passing, func(a, b error) int { return cmp.Compare(retryAfter(a), retryAfter(b)) })
	}
	e, ok := errors.AsType[*llm.Error](best)
	if !ok || len(failed) == 1 {
		return best
	}
	return &llm.Error{Class: e.Class, Provider: e.Provider, RetryAfter: e.RetryAfter, Err: errors.Join(failed...)}
}

package work_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// TestNobodyIsCalledInsideATransaction checks that hooks inside a transaction can call neither HTTP
// nor a model. Outside of it both calls succeed.
func TestNobodyIsCalledInsideATransaction(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	t.Cleanup(server.Close)
	client, err := outbound.New(outbound.Options{AllowPrivateHosts: []string{server.Listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	onEach(t, func(t *testing.T, w *world) {
		model := llmtest.Script(t, llmtest.Say("yes"))
		call := func(ctx context.Context) (web, asked error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, web := client.Do(req)
			if web == nil {
				web = resp.Body.Close()
			}
			_, asked = model.Generate(ctx, llm.Request{}, nil)
			return web, asked
		}
		hooks := 0
		barred := func(ctx context.Context) {
			hooks++
			if web, asked := call(ctx); !errors.Is(web, outbound.ErrBarred) || !errors.Is(asked, outbound.ErrBarred) {
				t.Errorf("in a hook it is %v, %v", web, asked)
			}
		}
		u := w.unit()
		begin, end := u.Begin, u.End
		u.Enter = func(ctx context.Context, e *work.Entry) error { return e.Begin(ctx) }
		u.Begin = func(ctx context.Context, s *work.Start) error {
			barred(ctx)
			return begin(ctx, s)
		}
		u.End = func(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
			barred(ctx)
			return end(ctx, tx, out)
		}
		requests = 0
		w.act = func(ctx context.Context, _ reason.Job) (reason.Outcome, error) {
			return reason.Outcome{Status: execution.Completed}, errors.Join(call(ctx))
		}
		if out := w.once(t, u); out.Status != execution.Completed || requests != 1 || hooks != 3 {
			t.Errorf("it is %+v, with %d requests, and %d hooks", out, requests, hooks)
		}
	})
}

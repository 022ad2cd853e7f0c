package turn_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// behindProxy runs fn on each Postgres, in a world that reaches it through a proxy and whose model says hello.
func behindProxy(t *testing.T, fn func(t *testing.T, w *world, p *proxy.Proxy)) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			e := dbtest.New(t, engine)
			p, err := proxy.Start(e.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			e.URL = p.URL
			e.DB, e.Skew = e.Open(t, 0)
			w := newWorld(t, e)
			w.think(llmtest.Write(t, llmtest.Writes("Hello.")))
			fn(t, w, p)
		})
	}
}

// The response to the write that begins a turn is lost. The turn has begun nevertheless: its caller
// is told so and does not begin it again.
func TestALostAnswerDoesNotLoseTheTurn(t *testing.T) {
	behindProxy(t, func(t *testing.T, w *world, p *proxy.Proxy) {
		hit := p.At("INSERT INTO messages", proxy.Fault{Kind: proxy.CutAnswer})
		r := w.said(t, turn.Turn{Message: "Hi."})
		<-hit
		if r.Status != execution.Completed || r.Answer != "Hello." {
			t.Errorf("the turn is %+v", r)
		}
		if got := w.spoken(t, r.Thread); len(got) != 2 {
			t.Errorf("it was said: %q", got)
		}
		w.mustBeFree(t)
	})
}

// The responses to the acquire of a turn's lanes are lost: one of them, or all. The turn goes on under the
// lanes that it has, or leaves none of them held.
func TestALostAnswerAboutTheLanes(t *testing.T) {
	behindProxy(t, func(t *testing.T, w *world, p *proxy.Proxy) {
		hit := p.At("lk_lane_acquire", proxy.Fault{Kind: proxy.CutAnswer})
		r := w.said(t, turn.Turn{Message: "Hi.", Multitask: turn.Reject})
		<-hit
		if r.Status != execution.Completed || r.Answer != "Hello." {
			t.Errorf("the turn is %+v", r)
		}
		w.mustBeFree(t)

		p.OnRequest(func(request []byte) proxy.Fault {
			if bytes.Contains(request, []byte("lk_lane_acquire")) {
				return proxy.Fault{Kind: proxy.CutAnswer}
			}
			return proxy.Fault{}
		})
		if r, err := w.say(turn.Turn{Message: "Hi.", Thread: r.Thread}); !errors.Is(err, db.ErrUncertain) {
			t.Errorf("the turn is %+v, %v", r, err)
		}
		w.mustBeFree(t)
	})
}

// Package visit builds the handler of visitors' chats with all the parts that it needs. It links
// neither the API nor its framework, so that the chat's function starts fast.
package visit

import (
	"context"
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/door"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat/widget"
)

// Process holds what the chat needs from the process that serves it.
type Process struct {
	Send    func(db.Workspace)                    // starts the sending of what turns leave in the outbox
	Drain   <-chan struct{}                       // the streams end when it is closed; may be nil
	DemoKey func(context.Context) (string, error) // the site key of the page /chat-demo; nil: it has none
}

// New returns the handler of the chat, with the authentication of in. It is called by [NewFunction]
// and by the local runner.
func New(s *wire.Surfaces, in *door.Door, p Process) *chat.Handler {
	return &chat.Handler{
		Runner:   s.Operate.Runner,
		Auth:     in.Auth,
		Limits:   in.Limits,
		Failures: in.Failures,
		Streams:  sse.Streams{Drain: p.Drain},
		Send:     p.Send,
		Pages:    &widget.Handler{DemoKey: p.DemoKey, DemoModel: s.Core.Config.LLMProvider == demo.Name},
	}
}

// NewFunction builds the chat of a function on Lambda. instance identifies this process in the names
// of holders. kick has the function operate send what is in the outbox of a workspace; background runs
// it after the response. It is called by functions/chat.
func NewFunction(
	core *app.Core, instance string, background func(func(context.Context)), kick func(context.Context, db.Workspace),
) (http.Handler, error) {
	s, err := wire.New(core, instance)
	if err != nil {
		return nil, err
	}
	in, err := door.OfFunction(s)
	if err != nil {
		return nil, err
	}
	send := func(ws db.Workspace) { background(func(ctx context.Context) { kick(ctx, ws) }) }
	return New(s, in, Process{Send: send}), nil
}

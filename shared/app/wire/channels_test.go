package wire_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/mail"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// The channel log is available on a laptop only.
func TestTheLogIsAChannelOfLaptopsAlone(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	for function, wired := range map[string]bool{"": true, "operate": false} {
		cfg := app.Config{Function: function, LLMProvider: "demo"}
		core := app.NewCore(e.DB, cfg, slog.New(slog.DiscardHandler), func(context.Context) (awssdk.Config, error) { return awssdk.Config{}, errors.New("no AWS here") })
		a, err := wire.New(core, "test")
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := a.Sender.Handlers["message:log"]; ok != wired {
			t.Errorf("in the function %q it is sent: %t", function, ok)
		}
		err = a.Reachable("log", "ada")
		if wrong, ok := errors.AsType[*problem.InvalidError](err); wired != (err == nil) || !wired && (!ok || wrong.Fields[0].Field != "channel") {
			t.Errorf("in the function %q it is reached: %v", function, err)
		}
		if err := a.Reachable("sms", "+14155550123"); err != nil {
			t.Error(err)
		}
	}
}

// A process without the clients for e-mail and SMS can still queue such messages. A process with
// the clients sends them.
func TestAHeartbeatLeavesEMailsToOthers(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	core := coreOn(e)
	h, err := wire.NewHeartbeat(core, "test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := wire.New(core, "test", mail.Channels(core)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"message:email", "message:sms"} {
		_, sends := h.Sender.Handlers[topic]
		if _, other := all.Sender.Handlers[topic]; sends || !other || !slices.Contains(h.Elsewhere, topic) {
			t.Errorf("%s: the heartbeat sends it %t, the others %t, elsewhere are %v", topic, sends, other, h.Elsewhere)
		}
	}
	if len(h.Sender.Handlers)+len(h.Elsewhere) != len(all.Sender.Handlers) {
		t.Errorf("a heartbeat sends %v, others %v", h.Sender.Topics(), all.Sender.Topics())
	}
}

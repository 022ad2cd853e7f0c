package wire_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// What people are told is written into a laptop's log, and into no other.
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

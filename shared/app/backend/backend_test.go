package backend_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/redis/go-redis/v9"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/backend"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// TestTheCoreClosesTheRedis: when a secret was rotated, another core takes the place of this one, and with it another
// client of the Redis.
func TestTheCoreClosesTheRedis(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	cfg := app.Config{LLMProvider: "demo", RedisURL: dbtest.Servers(t).RedisURL}
	core := app.NewCore(e.DB, cfg, slog.New(slog.DiscardHandler), func(context.Context) (aws.Config, error) {
		return aws.Config{}, errors.New("no AWS here")
	})
	s, err := wire.New(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := backend.Of(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	core.Leave() // as Close does
	if err := kept.Check(t.Context()); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("after the core has left, the Redis answers: %v", err)
	}
}

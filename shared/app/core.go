package app

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Core is what every surface stands on. Clock, ids and randomness come in here
// and nowhere else.
type Core struct {
	DB     *db.DB
	Config Config
	// AWS is asked when something of AWS is needed: a model, a key, a function.
	AWS    func(context.Context) (aws.Config, error)
	Clock  func() time.Time
	IDs    func() string // time-ordered (UUIDv7)
	Log    *slog.Logger
	Traces *trace.Source
}

// NewCore is a core with the real clock and randomness over an opened database.
func NewCore(d *db.DB, cfg Config, log *slog.Logger, aws func(context.Context) (aws.Config, error)) *Core {
	return &Core{
		DB: d, Config: cfg, AWS: aws, Log: log, Clock: time.Now, Traces: trace.NewSource(time.Now, rand.Reader),
		IDs: func() string { return uuid.Must(uuid.NewV7()).String() },
	}
}

// Seeds is what a database is to begin with, beside the default workspace.
type Seeds struct {
	Demo  bool   // objectives that the first beats work on
	Owner string // e-mail address of the default workspace's first owner; "": none
}

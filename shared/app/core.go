package app

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Core holds what every surface needs. Clock, ids and randomness enter the program here only.
type Core struct {
	DB     *db.DB
	Config Config
	// AWS returns the configuration for AWS clients. It is called before each use of AWS, such as
	// a model, a key or a function.
	AWS    func(context.Context) (aws.Config, error)
	Clock  func() time.Time
	IDs    func() string // time-ordered (UUIDv7)
	Log    *slog.Logger
	Traces *trace.Source
	Meters *observe.Meters // what this process counts
	Spans  *span.Exporter  // nil: spans are not exported
	Leave  func()          // closes what else was connected to; nil: nothing was
}

// Close closes the core's connections. It is called where another core takes its place.
func (c *Core) Close() error {
	if c.Leave != nil {
		c.Leave()
	}
	return c.DB.Close()
}

// NewCore returns a core with the system's clock and randomness over an opened database.
func NewCore(d *db.DB, cfg Config, log *slog.Logger, aws func(context.Context) (aws.Config, error)) *Core {
	core := &Core{
		DB: d, Config: cfg, AWS: aws, Log: log, Clock: time.Now, Traces: trace.NewSource(time.Now, rand.Reader), Meters: observe.New(),
		IDs: func() string { return uuid.Must(uuid.NewV7()).String() },
	}
	core.Spans = cfg.Spans(core.Meters, log)
	return core
}

// Seeds says what a new database contains beside the default workspace.
type Seeds struct {
	Demo  bool   // objectives for the first heartbeats
	Owner string // e-mail address of the default workspace's first owner; "": none
}

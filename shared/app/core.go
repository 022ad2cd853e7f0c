package app

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Core is what every surface stands on. Clock, ids and randomness come in here
// and nowhere else.
type Core struct {
	DB     *db.DB
	Clock  func() time.Time
	IDs    func() string // time-ordered (UUIDv7)
	Log    *slog.Logger
	Traces *trace.Source
}

// NewCore is a core with the real clock and randomness over an opened database.
func NewCore(d *db.DB, log *slog.Logger) *Core {
	return &Core{
		DB: d, Log: log, Clock: time.Now, Traces: trace.NewSource(time.Now, rand.Reader),
		IDs: func() string { return uuid.Must(uuid.NewV7()).String() },
	}
}

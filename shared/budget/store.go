package budget

import (
	"embed"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	Logged                                       db.Query
	Look, Lock, Hold, Count                      db.Query
	LockReserved, Charge, End, Log, Sweep        db.Query
	LockPeriods, Overlap, Insert                 db.Query
	LockThese, Allocate, Get, List, Burn, Usage  db.Query
	Names                                        db.Query
	UsageBySkill, ChargeSkills, SpentSkills, Any db.Query
	Prices                                       db.Query

	LockCovers, LookCovers, Planned, InsertPeriods, CarryOver, Recount                             db.Query
	HoldAttempts, Promise, Estimated, UseReservation, Spend                                        db.Query
	HeldByAttempt, RaiseAttempt                                                                    db.Query
	Corrections, Learn, Exhausted, Resumable, Rates, Advice, Paces, SetPaces, AllocateDays, Series db.Query
	Tiers, ChooseTier, TaskUsed, Past, TaskModels, Lately                                          db.Query
}

// Store is the budgets of all workspaces. It is safe for concurrent use.
type Store struct {
	db     *db.DB
	q      queries
	ids    func() string
	clock  func() time.Time
	prices prices
}

// New returns a store. ids makes time-ordered ids (UUIDv7). clock decides only when to read prices
// again; all other times are the database's.
func New(d *db.DB, ids func() string, clock func() time.Time) (*Store, error) {
	s := &Store{db: d, ids: ids, clock: clock}
	return s, db.Load(files, &s.q)
}

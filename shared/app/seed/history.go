package seed

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed history.sql
var historyFiles embed.FS

type historyQueries struct{ Used, Burnt db.Query }

// HistoryDays is how many days before today the usage of [History] goes back.
const HistoryDays = 29

// historyMark begins the operation of each call that was never made.
const historyMark = "demo history: "

// past is one kind of model call in the demo's usage of the past days.
var past = []struct {
	agent, operation, model string
	surface                 trace.Surface
	skills                  []string
	calls                   int // a day
	input, output, cached   int64
	cost                    int64 // of one call in micro-dollars
}{
	{"flowpilot", "answer", "claude-sonnet-4", trace.Operate, []string{"search_memory", "query_activity"}, 5, 5200, 900, 14000, 33_300},
	{"flowpilot", "plan", "claude-sonnet-4", trace.Heartbeat, []string{"plan_objective"}, 2, 8100, 1400, 0, 45_300},
	{"flowpilot", "advance", "claude-haiku", trace.Heartbeat, []string{"advance_plan", "save_memory"}, 9, 3900, 350, 9000, 4_900},
	{"scout", "compare offers", "claude-opus-4", trace.Worker, []string{"compare_offers"}, 2, 7400, 1900, 0, 253_500},
	{"flowpilot", "chat", "claude-haiku", trace.Chat, nil, 7, 2100, 280, 6000, 2_900},
}

// History adds the usage of the days before today to the workspace of the demo, hour by hour, and has its
// budget count it. This usage never happened, so the operation and the session of each row say that it belongs
// to the demo. Today has only the usage of real runs. A repeated call on the same day changes nothing. It is
// called by the local runner.
func History(ctx context.Context, core *app.Core, ws db.Workspace, now time.Time) error {
	var q historyQueries
	if err := db.Load(historyFiles, &q); err != nil {
		return fmt.Errorf("demo history: %w", err)
	}
	today := now.UTC().Truncate(24 * time.Hour)
	err := core.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		for day := 1; day <= HistoryDays; day++ {
			date := today.AddDate(0, 0, -day)
			for _, p := range past {
				var skills json.RawMessage
				if p.skills != nil {
					skills, _ = json.Marshal(p.skills) // texts
				}
				weekend := date.Weekday() == time.Saturday || date.Weekday() == time.Sunday
				for n := range p.calls {
					at := date.Add(time.Duration(6+(n*13+day*5)%15) * time.Hour).Add(time.Duration((n*17+day*7)%60) * time.Minute)
					if weekend && n%2 == 1 {
						continue
					}
					vary := int64(70 + (day*37+n*23)%60) // per cent
					id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s %s %s %d %s", ws, p.agent, p.operation, n, date)).String()
					tx.Later().Exec(q.Used, id, string(core.Traces.New(p.surface)), p.agent, p.surface, historyMark+p.operation, p.model,
						p.input*vary/100, p.output*vary/100, p.cached*vary/100, p.cost*vary/100, skills, at)
				}
			}
		}
		_, err := tx.Exec(ctx, q.Burnt)
		return err
	})
	if err != nil {
		return fmt.Errorf("demo history: %w", err)
	}
	return nil
}

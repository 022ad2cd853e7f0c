package skill

import (
	"context"
	"embed"
	"encoding/json"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.md
var texts embed.FS

// QueryActivity returns the built-in skill query_activity, which reads log. "The last n hours" end
// at now().
func QueryActivity(log *activity.Log, now func() time.Time) (Skill, error) {
	return Define(texts, "query_activity", Skill{
		Scope: Internal, Effect: Read,
		Run: func(ctx context.Context, tx lane.Tx, c Call) (any, error) {
			args := struct {
				Skill   string          `json:"skill"`
				Status  activity.Status `json:"status"`
				TraceID trace.ID        `json:"traceId"`
				Hours   int             `json:"hours"`
				Limit   int             `json:"limit"`
			}{Hours: 72, Limit: 20}
			if err := json.Unmarshal(c.Arguments, &args); err != nil {
				return nil, Refuse("the arguments could not be read")
			}
			page, err := log.ListIn(ctx, tx, activity.Filter{
				Skill: args.Skill, Status: args.Status, Trace: args.TraceID, Limit: args.Limit,
				Since: now().Add(-time.Duration(args.Hours) * time.Hour),
			})
			if err != nil {
				return nil, err
			}
			type action struct {
				At      time.Time       `json:"at"`
				Skill   string          `json:"skill"`
				Status  activity.Status `json:"status"`
				Error   string          `json:"error,omitempty"`
				TraceID trace.ID        `json:"traceId"`
			}
			out := struct {
				Actions []action `json:"actions"`
			}{[]action{}}
			quoted := false // an error may quote text of a remote server
			for _, e := range page.Items {
				quoted = quoted || e.Error != ""
				out.Actions = append(out.Actions, action{e.CreatedAt, e.Skill, e.Status, e.Error, e.Trace})
			}
			if quoted {
				return Untrusted{out}, nil
			}
			return out, nil
		},
	})
}

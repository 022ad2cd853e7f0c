package api

import (
	"cmp"
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/overview"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// laneSpan is a time for which an execution had a lane.
type laneSpan struct {
	Lane        lane.Name        `json:"lane"`
	Label       string           `json:"label" doc:"What it worked on, for people"`
	Surface     string           `json:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker"`
	Holder      string           `json:"holder" doc:"The surface and the trace of the holder"`
	Agent       string           `json:"agent"`
	AcquiredAt  time.Time        `json:"acquiredAt"`
	EndedAt     *time.Time       `json:"endedAt" doc:"Null: it goes on"`
	Ended       string           `json:"ended" enum:"released,expired,forced,running"`
	Status      execution.Status `json:"status" enum:"running,waiting,parked,completed,failed,cancelled,stalled"`
	TraceID     trace.ID         `json:"traceId"`
	ExecutionID *string          `json:"executionId" format:"uuid"`
	Changed     bool             `json:"changed" doc:"False: it found nothing to do"`
}

// listLaneHistory lists which executions had which lanes, the latest first. It omits the holds of
// programs that began no execution. It is called by the Engine Room, lanekeeper lanes and scripts.
func (s *server) listLaneHistory(ctx context.Context, in *struct {
	Lane  string    `query:"lane" maxLength:"200"`
	Since time.Time `query:"since" doc:"Begun not before this time (RFC 3339)"`
	Until time.Time `query:"until" doc:"Begun before this time (RFC 3339)"`
	Paging
}) (*answer[page[laneSpan]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, more, err := s.Runs.History(ctx, workspace(ctx), execution.HistoryFilter{
		Lane: lane.Name(in.Lane), Since: in.Since, Until: in.Until, Before: before, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	return newest(found, more, func(x execution.Span) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} },
		func(x execution.Span) laneSpan {
			return laneSpan{
				Lane: x.Lane, Label: cmp.Or(overview.Title(x.Input), overview.LabelOf(x.Lane)), Surface: surfaceName(x.Surface),
				Holder: surfaceName(x.Surface) + "/" + string(x.Trace), Agent: x.Agent, AcquiredAt: x.CreatedAt.UTC(), EndedAt: utc(x.EndedAt),
				Ended: endOf(x), Status: x.Status, TraceID: x.Trace, ExecutionID: &x.ID, Changed: x.Outcome != "idle",
			}
		}), nil
}

// endOf says how an execution lost its lane.
func endOf(x execution.Span) string {
	switch {
	case x.Forced:
		return "forced"
	case x.Status == execution.Running && x.Live:
		return "running"
	case x.Status == execution.Running:
		return "expired"
	}
	return "released"
}

package api

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// histogramAnswer counts activities over time.
type histogramAnswer struct {
	BucketSeconds int64           `json:"bucketSeconds"`
	Items         []histogramItem `json:"items" nullable:"false" maxItems:"121" doc:"In order, without the empty ones"`
}

// histogramItem counts the activities of one bucket.
type histogramItem struct {
	At              time.Time `json:"at" doc:"Where the bucket begins"`
	Success         int       `json:"success"`
	Error           int       `json:"error"`
	PendingApproval int       `json:"pendingApproval"`
	Skipped         int       `json:"skipped"`
}

// getActivityHistogram counts the activities that a filter of the listing matches. It is called by the
// Engine Room and by scripts.
func (s *server) getActivityHistogram(ctx context.Context, in *struct {
	TraceID string    `query:"traceId" pattern:"^(hb|op|ch|wh|co|wk)_[0-9a-z]{9}_[0-9a-z]{10}$" patternDescription:"a trace id"`
	Skill   string    `query:"skill" maxLength:"255"`
	Status  string    `query:"status" enum:"success,error,pending_approval,skipped"`
	Surface string    `query:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker,hb,op,ch,wh,co,wk"`
	Agent   string    `query:"agent" maxLength:"255"`
	Since   time.Time `query:"since" doc:"Not before this time (RFC 3339); left out: an hour before until"`
	Until   time.Time `query:"until" doc:"Before this time (RFC 3339); left out: now"`
	Text    string    `query:"q" maxLength:"200" doc:"Somewhere in skill, error, input or output, in any case"`
}) (*answer[histogramAnswer], error) {
	until, since := in.Until.UTC(), in.Since.UTC()
	if in.Until.IsZero() {
		until = s.Clock().UTC()
	}
	if in.Since.IsZero() {
		since = until.Add(-time.Hour)
	}
	if !since.Before(until) {
		return nil, invalid(problem.At("query.since", "expected a time before until"))
	}
	if epoch := time.Unix(0, 0).UTC(); since.Before(epoch) { // no activity is older
		since = epoch
	}
	width := activity.Width(until.Sub(since))
	since = since.Truncate(width) // so that buckets stay where they are while time passes
	found, err := s.Activity.Histogram(ctx, workspace(ctx), activity.Filter{
		Trace: trace.ID(in.TraceID), Skill: in.Skill, Status: activity.Status(in.Status), Surface: surfaceOf(in.Surface), Agent: in.Agent,
		Since: since, Until: until, Text: in.Text,
	}, width)
	if err != nil {
		return nil, err
	}
	out := histogramAnswer{BucketSeconds: int64(width / time.Second), Items: make([]histogramItem, len(found))}
	for i, b := range found {
		out.Items[i] = histogramItem{b.At.UTC(), b.Success, b.Error, b.PendingApproval, b.Skipped}
	}
	return answered(out), nil
}

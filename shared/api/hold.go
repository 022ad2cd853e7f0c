package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

type acquireInput struct {
	LanePath
	Body struct {
		Holder string `json:"holder" minLength:"1" maxLength:"255" doc:"Readable, for people; it identifies nobody"`
		TTL    int    `json:"ttlSeconds,omitempty" minimum:"1" maximum:"3600" default:"300" doc:"How long the hold lives unless renewed"`
		Token  string `json:"token,omitempty" pattern:"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" patternDescription:"a UUID" doc:"A random UUID of the caller's own. The same request with the same token may be repeated when its answer was lost: it is one hold"`
	}
}

// holdAnswer is a lane that is the caller's now.
type holdAnswer struct {
	Lane      lane.Name `json:"lane"`
	Token     string    `json:"token,omitempty" doc:"Proves the hold: keep it secret"`
	Fence     int64     `json:"fence" doc:"Grows with every hold on the lane: refuse work under an older one"`
	ExpiresAt time.Time `json:"expiresAt"`
	WantedBy  string    `json:"wantedBy,omitempty" doc:"Who waits for the lane: finish the step and release"`
}

// acquireLane takes a lane for exactly as long as asked. It is called by agents
// without a database connection.
func (s *server) acquireLane(ctx context.Context, in *acquireInput) (*answer[holdAnswer], error) {
	name, err := in.name()
	if err != nil {
		return nil, err
	}
	h, err := s.Lanes.Acquire(ctx, lane.Request{
		Workspace: workspace(ctx), Lane: name, Holder: lane.Holder(in.Body.Holder), Token: in.Body.Token,
		TTL: time.Duration(in.Body.TTL) * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return answered(holdAnswer{Lane: name, Token: h.Token, Fence: h.Fence, ExpiresAt: h.Until().UTC(), WantedBy: h.WantedBy()}), nil
}

// HoldToken proves a hold.
type HoldToken struct {
	Token string `json:"token" pattern:"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" patternDescription:"the token of an acquire"`
}

// holdFrom is the hold that somebody says is his; the database tells whether it is.
func (s *server) holdFrom(ctx context.Context, in LanePath, by HoldToken) (*lane.Hold, error) {
	name, err := in.name()
	if err != nil {
		return nil, err
	}
	return &lane.Hold{Workspace: workspace(ctx), Lane: name, Token: strings.ToLower(by.Token)}, nil
}

type renewInput struct {
	LanePath
	Body struct {
		HoldToken
		TTL int `json:"ttlSeconds,omitempty" minimum:"1" maximum:"3600" default:"300" doc:"How long it lives from now on unless renewed again"`
	}
}

// renewLane keeps a lane. It is called by whoever acquired it.
func (s *server) renewLane(ctx context.Context, in *renewInput) (*answer[holdAnswer], error) {
	h, err := s.holdFrom(ctx, in.LanePath, in.Body.HoldToken)
	if err != nil {
		return nil, err
	}
	if err := s.Lanes.Renew(ctx, h, time.Duration(in.Body.TTL)*time.Second); err != nil {
		return nil, err
	}
	return answered(holdAnswer{Lane: h.Lane, Fence: h.Fence, ExpiresAt: h.Until().UTC(), WantedBy: h.WantedBy()}), nil
}

type releaseInput struct {
	LanePath
	Body struct{ HoldToken }
}

// releaseAnswer says whether a hold was ended.
type releaseAnswer struct {
	Lane     lane.Name `json:"lane"`
	Released bool      `json:"released" doc:"False where nobody held the lane"`
}

// releaseLane gives a lane back. It is called by whoever acquired it.
func (s *server) releaseLane(ctx context.Context, in *releaseInput) (*answer[releaseAnswer], error) {
	h, err := s.holdFrom(ctx, in.LanePath, in.Body.HoldToken)
	if err != nil {
		return nil, err
	}
	if err := s.Lanes.Release(ctx, h); err != nil {
		return nil, err
	}
	return answered(releaseAnswer{h.Lane, true}), nil
}

type forceInput struct {
	LanePath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it stands in the activity log"`
	}
}

// forceReleaseLane ends somebody else's hold on a lane and writes down who did it,
// why, and to whom, in one transaction. It is called by the Engine Room and by
// lanekeeper locks release.
func (s *server) forceReleaseLane(ctx context.Context, in *forceInput) (*answer[releaseAnswer], error) {
	name, err := in.name()
	if err != nil {
		return nil, err
	}
	by, _ := auth.From(ctx)
	begun := s.Clock()
	var released bool
	err = s.DB.Tx(ctx, by.Workspace, func(ctx context.Context, tx *db.Tx) error {
		if released, err = s.Lanes.ForceRelease(ctx, tx, name); err != nil {
			return err
		}
		// The row is locked from here on, and still names who held it.
		row := s.Lanes.PeekIn(tx.Later(), name)
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		s.Activity.Record(ctx, tx.Later(), forced(by, in, name, *row, released, s.Clock().Sub(begun)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("release lane %s by force: %w", name, err)
	}
	s.Log.WarnContext(ctx, "a lane was released by force", "lane", name, "released", released, "by", by.ID)
	return answered(releaseAnswer{name, released}), nil
}

// forced is the activity of a forced release.
func forced(by auth.Principal, in *forceInput, name lane.Name, row lane.Info, released bool, took time.Duration) activity.Entry {
	entry := activity.Entry{
		Agent: activity.Operator, Surface: trace.Operate, Skill: "lane.force_release", Status: activity.Skipped, Duration: took,
		Input: object("lane", name, "reason", in.Body.Reason, "by", string(by.Kind)+":"+by.ID),
	}
	output := []any{"released", released}
	if released {
		entry.Status = activity.Success
		output = append(output, "holder", row.Holder, "fence", row.Fence, "locked_at", row.LockedAt.UTC(),
			"execution_id", row.Execution, "trace_id", row.Trace)
	}
	entry.Output = object(output...)
	return entry
}

// object is a JSON object of alternating names and values that always encode.
func object(pairs ...any) json.RawMessage {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	raw, _ := json.Marshal(m)
	return raw
}

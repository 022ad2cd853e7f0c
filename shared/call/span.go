package call

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/span"
)

// recorded makes a call and records it as a span.
func (c Call) recorded(ctx context.Context, took func(Result) Result) (r Result, err error) {
	kind := span.Internal
	if c.Skill.Remote() {
		kind = span.Client
	}
	s := c.Spans.Start(ctx, span.ExecuteTool, c.Skill.Name, kind)
	s.Text("gen_ai.tool.name", c.Skill.Name)
	returned := false
	defer func() {
		if class := failureOf(returned, r, err); class != "" {
			s.Fail(class)
		}
		s.End()
	}()
	r, err = c.make(s.Under(ctx), took)
	returned = true
	return r, err
}

// failureOf returns the class of a call's failure; empty: it has not failed.
func failureOf(returned bool, r Result, err error) string {
	_, busy := errors.AsType[*lane.BusyError](err)
	switch {
	case !returned:
		return "panic"
	case errors.Is(err, lane.ErrLost):
		return "lane_lost"
	case busy:
		return "lane_busy"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case r.Status == execution.Uncertain:
		return "uncertain"
	case errors.Is(r.Err, db.ErrCheck):
		return string(skill.Input)
	case r.Err != nil:
		return string(skill.ClassOf(r.Err))
	case err != nil:
		return span.Other
	}
	return ""
}

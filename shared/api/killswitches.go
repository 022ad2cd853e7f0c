package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// switchItem is one kill switch, active or released.
type switchItem struct {
	ID         string     `json:"id" format:"uuid"`
	Scope      halt.Scope `json:"scope" enum:"workspace,agent,skill,model"`
	Target     string     `json:"target,omitempty" doc:"The name of the agent or skill; of a model its id as LLM_MODEL has it, or its provider's name"`
	Reason     string     `json:"reason,omitempty"`
	Active     bool       `json:"active"`
	SetBy      string     `json:"setBy"`
	SetAt      time.Time  `json:"setAt"`
	ReleasedBy string     `json:"releasedBy,omitempty"`
	ReleasedAt *time.Time `json:"releasedAt,omitempty"`
}

func switchItemOf(k halt.Switch) switchItem {
	return switchItem{
		ID: k.ID, Scope: k.Scope, Target: k.Target, Reason: k.Reason, Active: k.ReleasedAt == nil,
		SetBy: k.SetBy, SetAt: k.SetAt.UTC(), ReleasedBy: k.ReleasedBy, ReleasedAt: utc(k.ReleasedAt),
	}
}

type switchesInput struct {
	Active string `query:"active" enum:"true,false"`
	Paging
}

// listSwitches lists kill switches, newest first. It is called by the Engine Room.
func (s *server) listSwitches(ctx context.Context, in *switchesInput) (*answer[page[switchItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := halt.Filter{Before: before, Limit: in.Limit + 1}
	if in.Active != "" {
		f.Active = new(in.Active == "true")
	}
	found, err := s.Switches.List(ctx, workspace(ctx), f)
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x halt.Switch) db.Position { return db.Position{At: x.SetAt, ID: x.ID} }, switchItemOf), nil
}

type setSwitchInput struct {
	Body struct {
		Scope  halt.Scope `json:"scope" enum:"workspace,agent,skill,model" doc:"workspace stops every run, agent and model the runs of one and on one, skill its calls"`
		Target string     `json:"target,omitempty" maxLength:"255" doc:"The name of the agent or skill; of a model its id as LLM_MODEL has it, or its provider's name; left out for the workspace"`
		Reason string     `json:"reason,omitempty" maxLength:"500"`
	}
}

type setSwitchOutput struct {
	Status   int
	Location string `header:"Location"`
	Body     switchItem
}

// setSwitch stops the target until a person releases the switch. It returns 201, or 200 if the
// target is stopped already. It is called by the Engine Room and by scripts.
func (s *server) setSwitch(ctx context.Context, in *setSwitchInput) (*setSwitchOutput, error) {
	by, _ := auth.From(ctx)
	asked := halt.Switch{Scope: in.Body.Scope, Target: strings.TrimSpace(in.Body.Target), Reason: in.Body.Reason, SetBy: by.String()}
	if asked.Scope == halt.Agent {
		asked.Target = spelled(asked.Target)
	}
	var k halt.Switch
	var was bool
	err := s.change(ctx, "kill_switch.set", func(ctx context.Context, tx *db.Tx) (err error) {
		on := s.Switches.On(tx.Later())
		k, err = s.Switches.Set(ctx, tx, asked)
		was = slices.ContainsFunc(*on, func(other halt.Switch) bool { return other.ID == k.ID })
		s.wakeCoordinator(ctx, tx)
		return err
	}, "id", &k.ID, "scope", asked.Scope, "target", asked.Target, "reason", asked.Reason, "was_on", &was)
	if err != nil {
		return nil, err
	}
	s.Send(workspace(ctx))
	out := &setSwitchOutput{Status: http.StatusOK, Body: switchItemOf(k)}
	if !was {
		out.Status, out.Location = http.StatusCreated, "/api/v1/kill-switches/"+k.ID
	}
	return out, nil
}

// wakeCoordinator adds to a transaction that a cycle ends the attempts which a switch stops, or begins others.
func (s *server) wakeCoordinator(ctx context.Context, tx *db.Tx) {
	if s.Outbox != nil {
		coordinate.Kick(ctx, s.Outbox, tx.Later())
	}
}

// getSwitch returns one kill switch. It is called by the Engine Room.
func (s *server) getSwitch(ctx context.Context, in *IDPath) (*answer[switchItem], error) {
	k, err := s.Switches.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return answered(switchItemOf(k)), nil
}

type releaseSwitchInput struct {
	IDPath
	Body *struct{}
}

// releaseSwitch releases a kill switch. It is called by the Engine Room and by scripts.
func (s *server) releaseSwitch(ctx context.Context, in *releaseSwitchInput) (*answer[switchItem], error) {
	return s.deleteSwitch(ctx, &in.IDPath)
}

// halting lists the topics of work that looks only after minutes whether a kill switch still stops it.
var halting = []string{approval.Topic, inbox.Topic, turn.Topic, worker.Topic}

// deleteSwitch is releaseSwitch. The record of the switch remains, and what the switch stopped goes on at
// once. A switch that was released before stays as it is.
func (s *server) deleteSwitch(ctx context.Context, in *IDPath) (*answer[switchItem], error) {
	by, _ := auth.From(ctx)
	var k halt.Switch
	var was bool
	err := s.change(ctx, "kill_switch.release", func(ctx context.Context, tx *db.Tx) (err error) {
		k, was, err = s.Switches.Release(ctx, tx, in.ID, by.String())
		if err == nil && s.Outbox != nil {
			for _, topic := range halting {
				s.Outbox.AllDueNow(tx.Later(), topic)
			}
			s.wakeCoordinator(ctx, tx)
		}
		return err
	}, "id", in.ID, "scope", &k.Scope, "target", &k.Target, "was_on", &was)
	if err != nil {
		return nil, err
	}
	s.Kick(workspace(ctx))
	return answered(switchItemOf(k)), nil
}

package heartbeat

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

//go:embed reflect.md
var reflectPrompt string

//go:embed remember.md
var rememberPrompt string

// reflectionWork describes one of the two runs that are about the beats themselves.
type reflectionWork struct {
	name   string // of its phase
	about  string // its subject, for people
	lane   lane.Name
	prompt string
}

var (
	reflecting  = reflectionWork{name: "reflect", about: "what was done lately", lane: "heartbeat:reflect", prompt: reflectPrompt}
	remembering = reflectionWork{name: "remember", about: "what this beat did", lane: "heartbeat:remember", prompt: rememberPrompt}
)

const (
	// reflectBack is how far a reflection looks back.
	reflectBack = 7 * 24 * time.Hour
	// maxKnown is the largest number of memories that a run receives, so that it saves none twice.
	maxKnown = 30
)

// reflect runs a reflection on the last days, if one is due.
func (b *beat) reflect(ctx context.Context, p *Phase) error {
	if !b.snapshot.left(reflecting.lane) && !b.snapshot.reflects(b.settings, b.tick.Full) {
		return nil
	}
	p.Considered = 1
	if b.mustStop(ctx, p, 1, b.muted(ctx)) {
		return nil
	}
	used, err := b.Activity.Used(ctx, b.tick.Workspace, b.Clock().Add(-reflectBack))
	if err != nil {
		return err
	}
	out, err := b.think(ctx, p, reflecting, reflectBrief{
		Days: int(reflectBack / (24 * time.Hour)), Activity: used, Health: b.healed, ActiveObjectives: len(*b.snapshot.due),
		Waiting: b.snapshot.unanswered.Count,
	}, execution.Trusted, nil)
	if out.Status == execution.Completed {
		b.reflection = out.Answer
	}
	if p.Done+p.Failed > 0 { // the next beat does not repeat a reflection without a result
		p.Text = cmp.Or(b.reflection, "(it came to nothing: "+cmp.Or(out.Reason, "no answer")+")")
	}
	return b.leave(ctx, p, "", err)
}

// remember saves what later runs need to know about this beat.
func (b *beat) remember(ctx context.Context, p *Phase) error {
	left := b.snapshot.left(remembering.lane)
	if !left && (len(b.done) == 0 && b.reflection == "" || b.settings.BeatMemories < 1) {
		return nil
	}
	p.Considered = 1
	if b.settings.BeatMemories < 1 {
		return b.leave(ctx, p, "", b.forgo(ctx, p, remembering, "a beat saves no memories any more"))
	}
	if b.mustStop(ctx, p, 1, b.muted(ctx)) {
		return nil
	}
	var batch db.Batch
	known := b.Memories.Relevant(&batch, activity.Operator, maxKnown)
	if err := b.DB.Read(ctx, b.tick.Workspace, &batch); err != nil {
		return fmt.Errorf("read what is remembered: %w", err)
	}
	skills, err := b.saving(b.settings.BeatMemories)
	if err != nil {
		return err
	}
	trust := b.trust
	if len(*known) > 0 {
		trust = execution.Untrusted // the authors of the memories may have read untrusted text
	}
	_, err = b.think(ctx, p, remembering, rememberBrief{
		AtMost: b.settings.BeatMemories, Done: b.done, Reflection: b.reflection, Remembered: contents(*known),
	}, trust, skills)
	return b.leave(ctx, p, "", err)
}

// saving returns the only skill of a run that remembers: save_memory, limited to most new memories.
func (b *beat) saving(most int) (*skill.Set, error) {
	saves, ok := b.skills.Find("save_memory")
	if !ok {
		return skill.NewSet() // a person has disabled it
	}
	limited, saved := *saves, 0
	limited.Run = func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
		if saved >= most {
			return nil, skill.Refuse("a beat saves %d memories at most: that is enough", most)
		}
		out, err := saves.Run(ctx, tx, c)
		if err == nil {
			saved++
		}
		return out, err
	}
	return skill.NewSet(limited)
}

func contents(known []memory.Memory) []string {
	out := []string{}
	for _, m := range known {
		out = append(out, m.Content)
	}
	return out
}

// left reports whether an execution under the lane was begun and did not end.
func (l snapshot) left(name lane.Name) bool {
	for _, e := range *l.open {
		if e.Subject == name {
			return true
		}
	}
	return false
}

// think runs one of the two runs about the beats, under its own lane. An interrupted run is resumed
// with its stored input.
func (b *beat) think(ctx context.Context, p *Phase, t reflectionWork, told any, trust execution.Trust,
	skills *skill.Set) (reason.Outcome, error) {
	input := map[string]string{"task": t.name}
	out, err := b.do(ctx, p, t.name, work.Unit{
		Name: t.name, Lane: lane.Request{Lane: t.lane},
		Begin: func(ctx context.Context, s *work.Start) error {
			if len(s.Open) > 0 {
				return s.Resume(ctx, s.Open[0])
			}
			return s.New(ctx, b.thinking(b.piece(t.lane, input)))
		},
		Act: func(ctx context.Context, job reason.Job) (reason.Outcome, error) {
			b.Log.InfoContext(ctx, "looks at the beats", "phase", t.name, "about", t.about)
			if skills == nil {
				skills = b.skills.Only()
			}
			job, _, err := b.spoken(ctx, job, t.prompt)
			if err != nil {
				return reason.Outcome{}, err
			}
			job.Skills, job.Trust = skills, trust
			job.Messages = []llm.Message{{Role: llm.RoleUser, Text: string(encode(told))}}
			return b.Reason.Run(ctx, b.bounded(p, job))
		},
		End: func(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
			if out.Poison {
				b.givenUp(ctx, tx, p, input, out.Execution, out.Reason)
			}
			return nil
		},
	})
	if err == nil && out.Execution.ID != "" {
		b.count(p, out.Outcome)
	}
	return out.Outcome, err
}

// forgo ends a run that was begun and is not wanted any more. Otherwise it would stay open.
func (b *beat) forgo(ctx context.Context, p *Phase, t reflectionWork, why string) error {
	_, err := b.do(ctx, p, t.name, work.Unit{
		Name: t.name, Lane: lane.Request{Lane: t.lane},
		Begin: func(_ context.Context, s *work.Start) error {
			for _, e := range s.Open {
				if err := s.Close(e, execution.Cancelled, why); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return err
}

// piece returns a new execution whose parent is the beat.
func (b *beat) piece(subject lane.Name, input any) execution.Execution {
	return execution.Execution{
		ID: b.IDs(), Agent: activity.Operator, Surface: trace.Heartbeat, Trace: b.exec.Trace, Parent: b.exec.ID,
		Subject: subject, Attempt: 1, Input: encode(input),
	}
}

// bounded sets the limits of the beat and of the workspace on a job that asks a model.
func (b *beat) bounded(p *Phase, job reason.Job) reason.Job {
	job.MaxTokens, job.Window = answerTokens, b.Window
	job.Stops = append(b.stops(job.Hold), b.capped, reason.MaxSteps(b.settings.StepsPerRun))
	job.Retries, job.SkillTimeout = b.settings.ToolRetries, time.Duration(b.settings.SkillTimeout)*time.Second
	job.Day, job.DayMicroUSD, job.Priced = b.settings.DayTokens, b.settings.DayMicroUSD, b.settings.BeatMicroUSD > 0
	job.Spent = b.spender(p)
	return job
}

// count adds the outcome of a run to its phase.
func (b *beat) count(p *Phase, out reason.Outcome) {
	switch out.Status {
	case execution.Completed:
		p.Done++
	case execution.Waiting:
		p.Left++
	case execution.Parked:
		p.Left++
		b.park(out.Reason)
		if out.Halted { // every further run that asks a model would end the same way
			b.modelOff = out.Reason
		}
	default:
		p.Failed++
	}
}

// did notes finished work for the run that remembers.
func (b *beat) did(work, result string, trust execution.Trust) {
	const longest = 500
	if len(b.done) < maxKnown {
		b.done = append(b.done, doneBrief{Work: work, Result: activity.Clip(result, longest)})
		b.trust = b.trust.With(trust)
	}
}

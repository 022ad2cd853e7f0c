package turn

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Held is what stands for an answer that waits for a person.
const Held = "A person looks at this answer first. It comes into this conversation once they let it pass."

// dropped is what stands for an answer that can't wait either.
const dropped = "This can't be answered here."

// maxHeld is how many bytes of an answer can wait; send_message takes as many characters.
const maxHeld = 16_000

// maxChecked is how many messages of the conversation a check sees with an answer.
const maxChecked = 50

// verdict is what an output check returns.
type verdict struct {
	Verdict string `json:"verdict"` // pass, redact or hold
	Text    string `json:"text"`    // what is told instead, for redact
	Reason  string `json:"reason"`  // for the person who decides, for hold
}

// spokenTo is a message of the conversation, as a check gets it.
type spokenTo struct {
	Role string `json:"role"` // user or assistant
	Text string `json:"text"`
}

// CheckOf returns the output check of an execution that is no turn and answers in a thread.
func (r *Runner) CheckOf(ws db.Workspace, e execution.Execution, thread string, job reason.Job, name string) func(context.Context, string, []llm.Message) (reason.Checked, error) {
	return (&turn{Runner: r, asked: asked{Thread: thread}, ws: ws, exec: e}).check(job, name)
}

// check returns the output check of a job: the skill with this name sees each answer. An answer
// that the skill holds, or that can't be checked, waits for a person as a call of send_message.
func (s *turn) check(job reason.Job, name string) func(context.Context, string, []llm.Message) (reason.Checked, error) {
	return func(ctx context.Context, text string, conversation []llm.Message) (reason.Checked, error) {
		begun := s.Reason.Clock()
		arguments := encode(map[string]any{"answer": text, "messages": lately(conversation)})
		k, got, err := s.ask(ctx, job, name, arguments)
		if err != nil && ctx.Err() != nil {
			return reason.Checked{}, fmt.Errorf("check an answer: %w", context.Cause(ctx))
		}
		line := activity.Entry{
			Agent: job.Agent, Surface: s.exec.Surface, Skill: name, Status: activity.Success, Input: encode(map[string]int{"characters": len(text)}),
			Execution: s.exec.ID, Attempt: s.exec.Attempt, Thread: s.Thread, Duration: s.Reason.Clock().Sub(begun),
		}
		if k != nil {
			line.SkillID = k.ID
		}
		if err != nil {
			s.Log.ErrorContext(ctx, "an answer could not be checked, and waits for a person", "skill", name, "error", err)
			line.Status, line.Error, line.Output = activity.Error, err.Error(), skill.ErrorOutput(skill.ClassOf(err))
			got = verdict{Verdict: "hold", Reason: "the output check " + name + " failed: " + err.Error()}
		} else {
			line.Output = encode(map[string]string{"verdict": got.Verdict, "reason": got.Reason})
		}
		out := reason.Checked{Text: text}
		var held approval.Approval
		switch got.Verdict {
		case "redact":
			out.Text = got.Text
		case "hold":
			if out.Text, held, err = s.held(ctx, job, text, got.Reason); err != nil {
				return reason.Checked{}, err
			}
		}
		out.Also = func(ctx context.Context, tx lane.Tx) error {
			s.Activity.Record(ctx, tx.Later(), line)
			if held.Skill == "" {
				return nil
			}
			_, err := s.Approvals.Request(ctx, tx, held)
			return err
		}
		return out, nil
	}
}

// lately returns the last messages of a conversation that have a text.
func lately(conversation []llm.Message) []spokenTo {
	out := []spokenTo{}
	for _, m := range conversation {
		if m.Text != "" && (m.Role == llm.RoleUser || m.Role == llm.RoleAssistant) {
			out = append(out, spokenTo{string(m.Role), m.Text})
		}
	}
	return out[max(0, len(out)-maxChecked):]
}

// ask calls the skill that checks answers. The skill is one of the agent's or one of the operator's,
// and works outside the database.
func (s *turn) ask(ctx context.Context, job reason.Job, name string, arguments json.RawMessage) (*skill.Skill, verdict, error) {
	k, err := s.checker(ctx, name)
	if err != nil {
		return nil, verdict{}, err
	}
	if violations := k.Check(ctx, arguments); len(violations) > 0 {
		return k, verdict{}, fmt.Errorf("its parameters must take {answer, messages}: %s", violations[0])
	}
	limit := cmp.Or(k.Timeout, job.SkillTimeout, 30*time.Second)
	if err := s.Lanes.Cover(ctx, append(lane.Holds{job.Hold}, job.Outer...), limit); err != nil {
		return k, verdict{}, fmt.Errorf("keep the lane while an answer is checked: %w", err)
	}
	sum := sha256.Sum256(arguments)
	output, err := k.Reach(ctx, limit, skill.Call{
		Workspace: s.ws, Agent: job.Agent, By: s.By, Surface: s.exec.Surface, Subject: s.exec.Subject,
		Key: s.exec.ID + ":check:" + hex.EncodeToString(sum[:8]), Arguments: arguments, Untrusted: true,
	})
	if err != nil {
		return k, verdict{}, fmt.Errorf("call skill %s: %w", name, err)
	}
	got, err := judged(output)
	return k, got, err
}

// checker returns the skill with this name.
func (s *turn) checker(ctx context.Context, name string) (*skill.Skill, error) {
	for _, surface := range []trace.Surface{s.exec.Surface, trace.Operate} {
		set, err := s.Skills(ctx, s.ws, surface)
		if err != nil {
			return nil, fmt.Errorf("load the output check: %w", err)
		}
		k, ok := set.Find(name)
		switch {
		case !ok || k.Name != name:
			continue
		case !k.Remote():
			return nil, skill.Fail(skill.Ours, "a built-in skill is no output check")
		}
		if s.Reason.Switches == nil {
			return k, nil
		}
		halts, err := s.Reason.Switches(ctx, s.ws)
		if err != nil {
			return nil, fmt.Errorf("read the kill switches: %w", err)
		}
		if why := halts.Skill(name); why != "" {
			return nil, skill.Fail(skill.Policy, "%s", why)
		}
		return k, nil
	}
	return nil, skill.Fail(skill.Ours, "there is no such skill, or it is disabled")
}

var errVerdict = errors.New("its result must be {verdict: pass, redact or hold, text, reason}")

// judged reads the verdict in a skill's result. Skills that only return text return it as {text}.
func judged(output json.RawMessage) (verdict, error) {
	var v verdict
	if json.Unmarshal(output, &v) != nil {
		return verdict{}, errVerdict
	}
	if v.Verdict == "" && strings.HasPrefix(strings.TrimSpace(v.Text), "{") {
		inner := []byte(v.Text)
		if v = (verdict{}); json.NewDecoder(bytes.NewReader(inner)).Decode(&v) != nil {
			return verdict{}, errVerdict
		}
	}
	switch v.Verdict {
	case "pass", "hold":
		return v, nil
	case "redact":
		if strings.TrimSpace(v.Text) != "" && thread.Storable(v.Text) {
			return v, nil
		}
	}
	return verdict{}, errVerdict
}

// held returns what is told of an answer that waits for a person, and the call that puts the answer
// into the conversation. The person may edit it. Where as many calls wait as may, the answer is
// dropped.
func (s *turn) held(ctx context.Context, job reason.Job, text, why string) (told string, call approval.Approval, err error) {
	open, err := s.Approvals.Open(ctx, s.ws, s.exec.ID)
	if err != nil {
		return "", approval.Approval{}, err
	}
	if open >= reason.MaxWaits {
		s.Log.WarnContext(ctx, "a held answer is dropped: too many wait", "execution", s.exec.ID)
		return dropped, approval.Approval{}, nil
	}
	set, err := s.Skills(ctx, s.ws, trace.Operate)
	if err != nil {
		return "", approval.Approval{}, fmt.Errorf("hold an answer: %w", err)
	}
	k, ok := set.Find(thread.SendMessage)
	if !ok {
		return "", approval.Approval{}, fmt.Errorf("hold an answer: the skill %s is disabled", thread.SendMessage)
	}
	return Held, approval.Approval{
		Skill: k.Name, SkillID: k.ID, Arguments: encode(map[string]string{"threadId": s.Thread, "body": activity.Clip(text, maxHeld)}),
		Why:       activity.Clip("the output check held this answer: "+cmp.Or(why, "it gave no reason"), 500),
		Execution: s.exec.ID, Call: "answer:" + s.IDs(),
		Subject: s.exec.Subject, Agent: job.Agent, Surface: trace.Operate, Trace: s.exec.Trace, Untrusted: true,
	}, nil
}

package turn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// work runs the agent until the turn is answered, waits, or is stopped.
func (s *turn) work(ctx context.Context, job reason.Job) (out reason.Outcome, err error) {
	s.running()
	s.worked = s.Reason.Clock()
	if s.resumed {
		s.Log.InfoContext(ctx, "turn goes on", "attempt", job.Execution.Attempt, "thread", s.Thread)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx, cancel) })
	defer watching.Wait()
	defer cancel(nil)
	if s.kind.LocksThread {
		if s.taken == nil || !s.taken(ctx) {
			s.read = nil // another may speak before this turn gets the lock
			if got, err := s.lockThread(ctx); err != nil || !got {
				return reason.Outcome{Status: execution.Parked, Reason: "another execution speaks in its thread", Halted: true}, err
			}
		}
		watching.Go(func() { s.keepThread(ctx, cancel) })
	}
	if job, err = s.job(ctx, job); err != nil {
		return out, err
	}
	job.Recorded, job.Overlaps = s.tell.entries, s.kind.Guarded && !s.resumed
	if slices.Contains(s.kind.Multitask, Steer) || slices.Contains(s.kind.Multitask, Collect) {
		job.Between = s.joined
	}
	if s.tell.emit != nil {
		job.Delta = func(_ context.Context, d llm.Delta) { s.tell.streamed(d) }
	}
	out, err = s.Through(ctx, job)
	if out.Status == execution.Parked && out.Halted && !s.kind.Waits { // the next run would end in the same way
		out.Status = execution.Failed
	}
	return out, err
}

// lookEvery is how often a turn checks whether it was ended.
const lookEvery = time.Second

// watch cancels the turn when another one has acquired its lane, so that no further call begins. It
// only reads; the work itself renews the hold.
func (s *turn) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for pause(ctx, lookEvery) {
		present, err := s.Lanes.Peek(ctx, s.ws, s.Lane)
		if err == nil && (present.Fence != s.lane.Fence || !present.Held()) {
			cancel(lane.ErrLost)
		}
	}
}

// job returns the job of a turn. A resumed turn keeps its system prompt, its skills and its
// messages.
func (s *turn) job(ctx context.Context, job reason.Job) (reason.Job, error) {
	entries := []execution.Entry{} // empty, and not nil: the execution begins, and its journal is not read
	if s.resumed {
		var err error
		if entries, err = s.Runs.Journal(ctx, s.ws, s.exec.ID, 0); err != nil {
			return job, err
		}
	}
	if s.read == nil {
		var b db.Batch
		s.read = s.readGround(&b, len(entries) == 0)
		if err := s.DB.Read(ctx, s.ws, &b); err != nil {
			return job, fmt.Errorf("read what a turn works by: %w", err)
		}
	}
	on, err := s.read(ctx)
	if err != nil {
		return job, err
	}
	settings, words, skills := on.settings, on.persona, on.skills
	if skills == nil {
		if skills, err = s.Skills(ctx, s.ws, s.exec.Surface); err != nil {
			return job, err
		}
	}
	job = s.bounded(job, nil, settings)
	job.Basis = on.first
	if s.kind.ThreadTokens != nil {
		if job.Tokens = s.kind.ThreadTokens(settings) - on.others; job.Tokens == 0 {
			job.Tokens = -1
		}
	}
	job = s.speaking(job, words)
	job.By, job.NoApprovals = s.By, s.Limited
	job.Journal = slices.Clip(entries)
	names := words.Skills
	if len(entries) > 0 {
		if job.System, names, err = reason.StartOf(entries); err != nil {
			return job, err
		}
	}
	if words.OutputCheck != "" {
		job.Check = s.check(job, words.OutputCheck)
	}
	job.Skills = s.allowed(skills, names)
	if len(entries) == 0 {
		job.Messages, job.Trust = s.history(on.spoken)
	}
	return job, nil
}

// speaking returns the job with the words and the model of a persona, and with the longest answer that was asked for.
func (s *turn) speaking(job reason.Job, as persona.Persona) reason.Job {
	if s.AnswerTokens > 0 {
		job.MaxTokens = min(job.MaxTokens, s.AnswerTokens)
	}
	job.System, job.Model, job.Temperature = as.System(s.kind.Prompt), as.Model, as.Temperature
	return job
}

// ground is what a turn works by.
type ground struct {
	basis
	others int64           // tokens of the other turns of its thread, if those are bounded
	spoken []thread.Spoken // the newest messages of the thread, if the turn begins and uses them
	skills *skill.Set      // nil: they were not read
	first  *reason.Basis   // of the first step, if that begins at once; nil: it was not read
}

// readGround adds the read of what the turn works by to a batch. Call the returned function once, after
// the batch was sent.
func (s *turn) readGround(b *db.Batch, begins bool) func(context.Context) (ground, error) {
	none := func() []thread.Spoken { return nil }
	read, others, spoken, unsent := s.readBasis(b, s.exec), new(execution.Spent), none, none
	if s.kind.ThreadTokens != nil {
		others = s.Runs.SpentIn(b, s.Thread, s.exec.ID, s.kind.Agent, s.here())
	}
	if begins && (s.Before == nil || s.Adds) && !s.fresh {
		if s.kind.Deliverable != nil {
			unsent = s.Threads.ReadUnsent(b, s.Thread, maxHistory)
		}
		spoken = s.Threads.ReadLately(b, s.Thread, maxHistory)
	}
	skills, first := func(context.Context) *skill.Set { return nil }, (*reason.Basis)(nil)
	if s.SkillsIn != nil {
		skills = s.SkillsIn(b, s.ws, s.exec.Surface)
	}
	if begins && s.asked.Multitask != Collect { // which waits before its first step
		first = s.Reason.ReadBasis(b, s.ws)
	}
	return func(ctx context.Context) (ground, error) {
		by, err := read()
		if first != nil {
			first.Ready()
		}
		said := spoken()
		if s.kind.Deliverable != nil {
			said = together(said, unsent())
		}
		return ground{by, others.Tokens, said, skills(ctx), first}, err
	}
}

// allowed returns the skills that the person may use. If names is not nil, it returns only those.
func (s *turn) allowed(skills *skill.Set, names []string) *skill.Set {
	if names == nil {
		names = skills.Names()
	}
	return skills.Only(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		k, ok := skills.Find(name)
		return !ok || s.Limited && (k.RequiresApproval || k.Admins)
	})...)
}

// end stores the answer with the end of the execution.
func (s *turn) end(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
	if out.Status != execution.Parked {
		if body := s.storedText(out.Outcome); body != "" {
			m := thread.Spoken{
				Role: thread.Assistant, Body: activity.Clip(activity.Text(body), maxBody),
				Execution: s.exec.ID, Key: fmt.Sprintf("%s:%d", s.exec.ID, out.Steps), First: !s.resumed, Data: thread.TrustData(out.Trust),
			}
			if err := s.tellEnd(ctx, tx, out.Status, m); err != nil {
				return err
			}
		}
	}
	if s.kind.LocksThread && !out.Status.Ended() { // the end of the execution has released it
		if _, err := s.Threads.Release(ctx, tx, s.exec.ID); err != nil {
			return err
		}
	}
	if out.Status != execution.Parked { // rows of the outbox are locked after the thread's
		s.Runs.Wake(tx.Later(), s.line(), s.exec.ID)
	}
	entry := activity.Entry{
		Agent: s.kind.Agent, Surface: s.exec.Surface, Skill: s.kind.Name, Status: activity.Success,
		Input: encode(map[string]string{"message": s.Message}), Output: encode(map[string]string{"answer": out.Answer}),
		Execution: s.exec.ID, Attempt: out.Execution.Attempt, Thread: s.Thread,
	}
	switch {
	case out.Poison:
		entry.Status, entry.Error = activity.Error, "given up: "+out.Reason
		s.Activity.Record(ctx, tx.Later(), entry)
	case out.Status == execution.Completed || out.Status == execution.Waiting:
		entry.Duration = s.Reason.Clock().Sub(s.worked)
		s.Activity.Record(ctx, tx.Later(), entry)
	}
	s.ended = s.Runs.GetIn(tx.Later(), s.exec.ID)
	return nil
}

// tellEnd writes down how the turn ended. Why there is no answer names skills and errors: it stays in the
// thread where answers leave.
func (s *turn) tellEnd(ctx context.Context, tx lane.Tx, status execution.Status, m thread.Spoken) error {
	if status == execution.Completed || status == execution.Waiting {
		return s.answer(ctx, tx, m)
	}
	return s.say(ctx, tx, s.Thread, m)
}

// maxBody is the longest message of a thread, in bytes.
const maxBody = 60 << 10

// storedText returns the text that the thread stores for the end of the turn.
func (s *turn) storedText(out reason.Outcome) string {
	if s.kind.Describe == nil {
		return answerOf(out)
	}
	return s.kind.Describe(Reply{Status: out.Status, Answer: out.Answer, Reason: out.Reason})
}

// answerOf returns the text that a thread stores for the end of a run, with the reason.
func answerOf(out reason.Outcome) string {
	switch {
	case out.Status == execution.Waiting, out.Status == execution.Completed && out.Reason == "":
		return out.Answer
	case out.Status == execution.Completed:
		return out.Answer + "\n\n(" + out.Reason + ")"
	}
	stopped := "(stopped: " + out.Reason + ")"
	if out.Summary != "" {
		stopped = fmt.Sprintf("(stopped: %s; %s)", out.Reason, out.Summary)
	}
	if out.Answer == "" {
		return stopped
	}
	return out.Answer + "\n\n" + stopped
}

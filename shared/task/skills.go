package task

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

//go:embed *.md
var texts embed.FS

// CreateSkill is the name of the skill that creates a task.
const CreateSkill = "create_task"

// Skills returns the built-in skills on tasks. They encrypt the secrets in the input of a task.
func Skills(s *Store, secrets *secret.Store) ([]skill.Skill, error) {
	create, err1 := skill.Define(texts, CreateSkill, skill.Skill{
		Prepare: func(ctx context.Context, c skill.Call) (any, error) { return s.prepareCreate(ctx, c, secrets) },
		Run:     s.runCreate, Undo: s.undoCreate,
	})
	get, err2 := skill.Define(texts, "get_task", skill.Skill{Effect: skill.Read, Run: s.runGet})
	return []skill.Skill{create, get}, errors.Join(err1, err2)
}

// called is the name space of the ids of tasks that calls of [CreateSkill] create.
var called = uuid.MustParse("8a1f3a58-6b0c-4f0e-8f52-0c9f4be7f1d3")

// newTask is a task that a call creates, with its input sealed.
type newTask struct {
	Task
	thread *Conversation
}

// prepareCreate reads the arguments of a call, and encrypts the secrets in the input of its task. The
// id of the task follows from the key of the call.
func (s *Store) prepareCreate(ctx context.Context, c skill.Call, secrets *secret.Store) (any, error) {
	args := struct {
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		TaskType     string          `json:"taskType"`
		Priority     int             `json:"priority"`
		Tags         []string        `json:"tags"`
		InputContext json.RawMessage `json:"inputContext"`
		Metadata     json.RawMessage `json:"metadata"`
		DependsOn    []string        `json:"dependsOn"`
		ProjectID    string          `json:"projectId"`
		MilestoneID  string          `json:"milestoneId"`
		Thread       *Conversation   `json:"thread"`
	}{Priority: DefaultPriority}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	for _, id := range append(args.DependsOn[:len(args.DependsOn):len(args.DependsOn)], args.ProjectID, args.MilestoneID) {
		if id != "" && !isID(id) {
			return nil, skill.Refuse("%q is not an id of a task, project or milestone", id)
		}
	}
	t := Task{
		ID: s.ids(), Title: args.Title, Description: args.Description, Type: args.TaskType, Priority: args.Priority, Tags: args.Tags,
		Input: args.InputContext, Metadata: args.Metadata, DependsOn: args.DependsOn, Project: strings.ToLower(args.ProjectID),
		Milestone: strings.ToLower(args.MilestoneID), MaxRetries: DefaultRetries, BackoffSeconds: DefaultBackoff,
		Untrusted: c.Untrusted, CreatedBy: cmp.Or(c.By, c.Agent),
	}
	if c.Key != "" {
		t.ID = uuid.NewSHA1(called, fmt.Appendf(nil, "%s:%s", c.Workspace, c.Key)).String()
	}
	switch err := t.SealInput(ctx, c.Workspace, secrets); {
	case errors.Is(err, secret.ErrUnavailable): // a later call may succeed, and the skill is not at fault
		return nil, skill.Fail(skill.RateLimit, "inputContext holds a secret, and the key service that encrypts it can't be reached: try again later")
	case errors.Is(err, secret.ErrNoKey):
		return nil, skill.Fail(skill.Ours, "inputContext holds a secret, and there is no key that encrypts it")
	case err != nil:
		return nil, err
	}
	return newTask{t, args.Thread}, nil
}

// runCreate creates the task of a call. A call that is repeated, such as that of a webhook that is
// delivered again, answers the task that is there.
func (s *Store) runCreate(ctx context.Context, tx lane.Tx, c skill.Call) (_ any, err error) {
	made, ok := c.Prepared.(newTask)
	if !ok {
		return nil, errors.New("create a task: the call was not prepared")
	}
	if c.Key != "" {
		switch t, err := s.head(ctx, tx, made.ID); {
		case err == nil:
			return createdTask(t), nil
		case !errors.Is(err, db.ErrNoRows):
			return nil, err
		}
	}
	if made.thread != nil {
		if made.Thread, err = s.converse(ctx, tx, c, *made.thread); err != nil {
			return nil, err
		}
	}
	t, err := s.Create(ctx, tx, made.Task)
	_, wrong := errors.AsType[*problem.InvalidError](err)
	_, missing := errors.AsType[*MissingError](err)
	if wrong || missing {
		return nil, skill.Refuse("%s", err)
	}
	if err != nil {
		return nil, err
	}
	return createdTask(t), nil
}

// Conversation is the thread to which a task belongs, and what was said there.
type Conversation struct {
	Channel string `json:"channel"`
	Address string `json:"address"`
	Message string `json:"message"`
}

// peoples is the channel of the threads between people and the agent.
const peoples = "operate"

// converse opens the thread of a task and appends what was said. The task's result is told there, so a
// model that has read untrusted text chooses no thread.
func (s *Store) converse(ctx context.Context, tx lane.Tx, c skill.Call, with Conversation) (string, error) {
	switch {
	case s.Converse == nil:
		return "", skill.Refuse("there are no threads here")
	case c.Untrusted && !c.Rule:
		return "", skill.Refuse("the thread of a task is not chosen after untrusted text was read: leave it out")
	case c.Untrusted && with.Channel == peoples: // it would be read there as a person's own words
		return "", skill.Refuse("the thread of a task must not be of channel operate: those conversations are people's own")
	}
	id, err := s.Converse(ctx, tx, with, c.Key)
	if _, wrong := errors.AsType[*problem.InvalidError](err); wrong {
		return "", skill.Refuse("%s", err)
	}
	return id, err
}

func createdTask(t Task) any { return map[string]any{"taskId": t.ID, "status": t.Status} }

// isID reports whether a text is an id in its usual form.
func isID(text string) bool { return len(text) == len(firstUUID) && uuid.Validate(text) == nil }

// undoCreate cancels a task that nobody has worked on or changed. The task is not deleted, because its
// log stays.
func (s *Store) undoCreate(ctx context.Context, tx *db.Tx, _, result json.RawMessage) (bool, error) {
	id, ok := idIn(result)
	if !ok {
		return false, nil
	}
	t, err := s.head(ctx, tx, id)
	if errors.Is(err, db.ErrNoRows) {
		return true, nil
	}
	if err != nil || t.Version != 1 || t.Status != Pending {
		return false, err
	}
	_, err = s.Cancel(ctx, tx, id, "lanekeeper", "the turn that created it was rolled back")
	return err == nil, err
}

// idIn returns the task's id that arguments or a result contain.
func idIn(raw json.RawMessage) (string, bool) {
	var named struct {
		TaskID string `json:"taskId"`
	}
	if json.Unmarshal(raw, &named) != nil {
		return "", false
	}
	id, err := uuid.Parse(named.TaskID)
	return id.String(), err == nil
}

// maxShown is the longest result of a task that a model reads, in bytes.
const maxShown = 16 << 10

func (s *Store) runGet(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
	id, ok := idIn(c.Arguments)
	if !ok {
		return nil, skill.Refuse("taskId must be the id of a task")
	}
	t, err := s.read(ctx, tx, id)
	if errors.Is(err, db.ErrNoRows) {
		return nil, skill.Refuse("there is no such task")
	}
	if err != nil {
		return nil, err
	}
	about := map[string]any{
		"taskId": t.ID, "title": t.Title, "description": t.Description, "status": t.Status, "cancelled": t.Cancelled, "priority": t.Priority,
		"progressPercent": t.Progress, "currentStep": t.CurrentStep, "attempt": t.Attempt, "dependsOn": t.DependsOn, "summary": t.Summary,
		"lastError": t.LastError, "createdAt": t.CreatedAt.UTC(),
	}
	if len(t.Output) <= maxShown {
		about["outputResult"] = t.Output
	} else {
		about["outputResult"] = "it is too long to be shown here"
	}
	if t.Untrusted || t.Attempt > 0 { // other agents write its result
		return skill.Untrusted{Value: about}, nil
	}
	return about, nil
}

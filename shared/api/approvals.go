package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// approvalItem is a call that waits, or has waited, for a person's decision. Fields without a value
// are omitted.
type approvalItem struct {
	ID          string          `json:"id" format:"uuid"`
	Status      approval.Status `json:"status" enum:"pending,approved,rejected,expired,executed"`
	Skill       string          `json:"skill"`
	SkillID     string          `json:"skillId,omitempty" format:"uuid"`
	Input       json.RawMessage `json:"input" doc:"What the call was asked for with"`
	EditedInput json.RawMessage `json:"editedInput,omitempty" doc:"What it is made with instead"`
	Why         string          `json:"why,omitempty" doc:"Why it waits"`
	Reason      string          `json:"reason,omitempty" doc:"Why it was rejected"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       string          `json:"error,omitempty" doc:"executed: what went wrong; it begins with uncertain: where the call may have had its effect"`
	Agent       string          `json:"agent"`
	Surface     string          `json:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker"`
	ExecutionID string          `json:"executionId" format:"uuid" doc:"The execution that asked"`
	CallID      string          `json:"callId" doc:"The call's place in it"`
	TraceID     trace.ID        `json:"traceId"`
	RequestedAt time.Time       `json:"requestedAt"`
	ExpiresAt   time.Time       `json:"expiresAt" doc:"Unanswered until then, it is denied"`
	DecidedAt   *time.Time      `json:"decidedAt,omitempty"`
	DecidedBy   string          `json:"decidedBy,omitempty"`
	ExecutedAt  *time.Time      `json:"executedAt,omitempty"`
}

func approvalItemOf(a approval.Approval) approvalItem {
	return approvalItem{
		ID: a.ID, Status: a.Status, Skill: a.Skill, SkillID: a.SkillID, Input: a.Arguments, EditedInput: a.Edited,
		Why: a.Why, Reason: a.Reason, Result: a.Result, Error: a.Error,
		Agent: a.Agent, Surface: surfaceName(a.Surface), ExecutionID: a.Execution, CallID: a.Call, TraceID: a.Trace,
		RequestedAt: a.RequestedAt.UTC(), ExpiresAt: a.ExpiresAt.UTC(), DecidedAt: utc(a.DecidedAt), DecidedBy: a.DecidedBy, ExecutedAt: utc(a.ExecutedAt),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

type approvalsInput struct {
	Status string `query:"status" enum:"pending,approved,rejected,expired,executed"`
	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listApprovals lists approvals, newest first. It is called by the Engine Room.
func (s *server) listApprovals(ctx context.Context, in *approvalsInput) (*answer[page[approvalItem]], error) {
	at, id, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, more, err := s.Approvals.List(ctx, workspace(ctx), approval.Filter{
		Status: approval.Status(in.Status), Before: approval.Position{At: at, ID: id}, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	items := make([]approvalItem, len(found))
	for i, a := range found {
		items[i] = approvalItemOf(a)
	}
	next := ""
	if more {
		last := found[len(found)-1]
		next = cursor{last.RequestedAt, last.ID}.String()
	}
	return listing(items, next), nil
}

// getApproval returns one approval. It is called by the Engine Room.
func (s *server) getApproval(ctx context.Context, in *IDPath) (*answer[approvalItem], error) {
	a, err := s.Approvals.Get(ctx, workspace(ctx), in.id())
	if err != nil {
		return nil, err
	}
	return answered(approvalItemOf(a)), nil
}

type approveInput struct {
	IDPath
	Body struct {
		Input json.RawMessage `json:"input,omitempty" doc:"What to make the call with instead; it must fit the skill's parameters"`
	}
}

// approve allows a call and makes it at once in this process. It is called by the Engine Room.
func (s *server) approve(ctx context.Context, in *approveInput) (*answer[approvalItem], error) {
	by, _ := auth.From(ctx)
	a, err := s.Approvals.Approve(ctx, by.Workspace, in.id(), principal(by), in.Body.Input)
	if err != nil {
		return nil, undecided(err)
	}
	s.Log.InfoContext(ctx, "a call was approved", "approval", a.ID, "skill", a.Skill, "by", by.ID, "edited", len(a.Edited) > 0)
	s.Kick(by.Workspace)
	return answered(approvalItemOf(a)), nil
}

type rejectInput struct {
	IDPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the agent can read it"`
	}
}

// reject denies a call. The execution that waits for the decision continues at once in this
// process. It is called by the Engine Room.
func (s *server) reject(ctx context.Context, in *rejectInput) (*answer[approvalItem], error) {
	by, _ := auth.From(ctx)
	a, err := s.Approvals.Reject(ctx, by.Workspace, in.id(), principal(by), in.Body.Reason)
	if err != nil {
		return nil, undecided(err)
	}
	s.Log.InfoContext(ctx, "a call was rejected", "approval", a.ID, "skill", a.Skill, "by", by.ID)
	s.Kick(by.Workspace) // the execution that waits for the decision continues
	return answered(approvalItemOf(a)), nil
}

// undecided converts an error of a decision to the problem that the client receives.
func undecided(err error) error {
	if d, ok := errors.AsType[*approval.DecidedError](err); ok {
		p := problem.New(http.StatusConflict, "decided", "the approval is "+string(d.Status)+" already")
		p.Title = "Decided"
		p.PresentStatus = string(d.Status)
		return p
	}
	if i, ok := errors.AsType[*approval.InvalidError](err); ok {
		return misfits("body.input", i.Violations)
	}
	switch {
	case errors.Is(err, approval.ErrChanged):
		return problem.New(http.StatusConflict, "changed", approval.ErrChanged.Error())
	case errors.Is(err, approval.ErrSkillGone):
		return problem.New(http.StatusConflict, "skill_gone", approval.ErrSkillGone.Error())
	}
	return err
}

// misfits returns the problem for arguments that do not fit a skill's parameters. The argument at
// is the location of the arguments in the request.
func misfits(at string, violations []skill.Violation) *problem.Problem {
	var fields []problem.FieldError
	for _, v := range violations[:min(len(violations), problem.MaxErrors)] {
		fields = append(fields, problem.At(located(at+dotted(v.Path)), misfit(v.Problem)))
	}
	return invalid(fields...)
}

var index = pattern.New(`^[0-9]{1,6}$`)

// dotted converts a JSON pointer to the notation of a problem's locations.
func dotted(pointer string) string {
	var out strings.Builder
	for i, name := range strings.Split(pointer, "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch {
		case i == 0:
		case index().MatchString(name):
			out.WriteString("[" + name + "]")
		default:
			out.WriteString("." + name)
		}
	}
	return out.String()
}

// tellable lists the prefixes of violations that speak only about the schema. Their texts hold no
// value.
var tellable = []string{
	"missing propert", "got ", "value must be ", "minLength: ", "maxLength: ", "minItems: ", "maxItems: ", "minProperties: ", "maxProperties: ",
	"items at ", "last ", "min ", "max ", "no items match ", "'anyOf' failed", "'oneOf' failed", "'allOf' failed", "'not' failed",
	"not a JSON object", "nested too deeply", "a number too large or too small to keep", "the skill can't be used", "the value takes too long to check", "the check was cut off",
}

var bounded = pattern.New(`^(minimum|maximum|exclusiveMinimum|exclusiveMaximum|multipleOf): got .+, (want .+)$`)

// misfit describes a violation without repeating the value.
func misfit(text string) string {
	for _, known := range tellable {
		if strings.HasPrefix(text, known) {
			return text
		}
	}
	if m := bounded().FindStringSubmatch(text); m != nil {
		return m[1] + ": " + m[2]
	}
	switch {
	case strings.HasPrefix(text, "additional properties"):
		return "unexpected property"
	case strings.Contains(text, "' is not valid "), strings.Contains(text, "' does not match pattern "):
		return "expected another format"
	}
	return "expected another value"
}

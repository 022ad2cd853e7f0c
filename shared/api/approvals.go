package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
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

	Title       string          `json:"title" doc:"What the call would do, in one line"`
	Outside     bool            `json:"outside" doc:"The execution had read text from outside before it asked"`
	Untrusted   []readText      `json:"untrusted" nullable:"false" doc:"The text from outside that it had read, the first first; at most 10"`
	History     approvalHistory `json:"history" doc:"The last decisions on other calls of this skill, at most 100"`
	InputDigest string          `json:"inputDigest" doc:"Of the call that an approval binds; approve takes it as digest"`
}

// readText is text from outside that an execution has read.
type readText struct {
	What  string    `json:"what" doc:"The skill that brought it, or message: it came with the first message"`
	Where string    `json:"where" doc:"From where, such as an address; empty: not known"`
	At    time.Time `json:"at"`
}

type approvalHistory struct {
	Approved int `json:"approved" doc:"As they were asked for"`
	Rejected int `json:"rejected"`
	Edited   int `json:"edited" doc:"Approved with other arguments"`
}

// withContext adds to approvals what a person should know before they decide.
func (s *server) withContext(ctx context.Context, found ...approval.Approval) ([]approvalItem, error) {
	contexts, err := s.Approvals.Contexts(ctx, workspace(ctx), found)
	if err != nil {
		return nil, err
	}
	known := s.Guard.Redactor(ctx, workspace(ctx))
	items := make([]approvalItem, len(found))
	for i, a := range found {
		c := contexts[a.ID]
		item := approvalItemOf(a)
		item.History = approvalHistory{c.History.Approved, c.History.Rejected, c.History.Edited}
		for _, r := range c.Read {
			item.Untrusted = append(item.Untrusted, readText{cmp.Or(r.What, "message"), known.Text(r.Where), r.At.UTC()})
		}
		items[i] = item
	}
	return items, nil
}

// oneWithContext is withContext for a single approval.
func (s *server) oneWithContext(ctx context.Context, a approval.Approval) (*answer[approvalItem], error) {
	items, err := s.withContext(ctx, a)
	if err != nil {
		return nil, err
	}
	return answered(items[0]), nil
}

func approvalItemOf(a approval.Approval) approvalItem {
	return approvalItem{
		ID: a.ID, Status: a.Status, Skill: a.Skill, SkillID: a.SkillID, Input: a.Arguments, EditedInput: a.Edited,
		Why: a.Why, Reason: a.Reason, Result: a.Result, Error: a.Error,
		Agent: a.Agent, Surface: surfaceName(a.Surface), ExecutionID: a.Execution, CallID: a.Call, TraceID: a.Trace,
		RequestedAt: a.RequestedAt.UTC(), ExpiresAt: a.ExpiresAt.UTC(), DecidedAt: utc(a.DecidedAt), DecidedBy: a.DecidedBy,
		ExecutedAt: utc(a.ExecutedAt),
		Title:      a.Title(), Outside: a.Untrusted, Untrusted: []readText{}, InputDigest: a.Digest,
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
	Skill  string `query:"skill" maxLength:"255"`
	Agent  string `query:"agent" maxLength:"255"`
	Paging
}

// listApprovals lists approvals, newest first. It is called by the Engine Room.
func (s *server) listApprovals(ctx context.Context, in *approvalsInput) (*answer[page[approvalItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, more, err := s.Approvals.List(ctx, workspace(ctx), approval.Filter{
		Status: approval.Status(in.Status), Skill: in.Skill, Agent: in.Agent, Before: before, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	items, err := s.withContext(ctx, found...)
	if err != nil {
		return nil, err
	}
	return listing(items, after(found, more, func(x approval.Approval) db.Position { return db.Position{At: x.RequestedAt, ID: x.ID} })), nil
}

// getApproval returns one approval. It is called by the Engine Room.
func (s *server) getApproval(ctx context.Context, in *IDPath) (*answer[approvalItem], error) {
	a, err := s.Approvals.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return s.oneWithContext(ctx, a)
}

type approveInput struct {
	IDPath
	Body struct {
		Input  json.RawMessage `json:"input,omitempty" doc:"What to make the call with instead; it must fit the skill's parameters"`
		Digest string          `json:"digest,omitempty" maxLength:"100" doc:"The inputDigest that was shown: another call than that one is not approved"`
	}
}

// approve allows a call and makes it at once in this process. It is called by the Engine Room.
func (s *server) approve(ctx context.Context, in *approveInput) (*answer[approvalItem], error) {
	by, _ := auth.From(ctx)
	a, err := s.Approvals.ApproveShown(ctx, by.Workspace, in.ID, principal(by), in.Body.Digest, in.Body.Input)
	if err != nil {
		return nil, undecided(err)
	}
	s.Log.InfoContext(ctx, "a call was approved", "approval", a.ID, "skill", a.Skill, "by", by.ID, "edited", len(a.Edited) > 0)
	s.Kick(by.Workspace)
	return s.oneWithContext(ctx, a)
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
	a, err := s.Approvals.Reject(ctx, by.Workspace, in.ID, principal(by), in.Body.Reason)
	if err != nil {
		return nil, undecided(err)
	}
	s.Log.InfoContext(ctx, "a call was rejected", "approval", a.ID, "skill", a.Skill, "by", by.ID)
	s.Kick(by.Workspace) // the execution that waits for the decision continues
	return s.oneWithContext(ctx, a)
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
	case errors.Is(err, approval.ErrNotShown):
		return problem.New(http.StatusConflict, "digest_changed", approval.ErrNotShown.Error())
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
	"missing propert", "got ", "value must be ", "minLength: ", "maxLength: ", "minItems: ", "maxItems: ",
	"minProperties: ", "maxProperties: ",
	"items at ", "last ", "min ", "max ", "no items match ", "'anyOf' failed", "'oneOf' failed", "'allOf' failed", "'not' failed",
	"not a JSON object", "nested too deeply", "a number too large or too small to keep", "the skill can't be used",
	"the value takes too long to check", "the check was cut off",
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

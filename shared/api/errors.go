package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/failure"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/project"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	tenant "github.com/lanekeeper/lanekeeper/shared/workspace"
)

const (
	retryOutage = 5 * time.Second // wait before a retry while the database cannot be reached
	retryFull   = time.Minute     // wait before a retry while a disk, or the queue of a thread, is full
)

var (
	// notFound says that something does not exist. [server.missing] replaces it with a problem
	// that names the missing thing.
	notFound    = problem.New(http.StatusNotFound, "not_found", "there is nothing here")
	elsewhere   = problem.New(http.StatusNotFound, "not_found", "this path is served at the address of the admin API: ask there")
	noRoute     = problem.New(http.StatusNotFound, "not_found", "the API has no such path: /docs lists those that it has")
	noWorkspace = problem.New(http.StatusNotFound, "not_found", "you belong to no workspace of this id")
	noThread    = problem.New(http.StatusNotFound, "not_found", "the thread that threadId names is not in this workspace")
	noSpeaker   = problem.New(http.StatusNotFound, "not_found", "the execution that executionId names is not in this workspace")
	notYours    = problem.New(http.StatusForbidden, "forbidden", "the execution is not yours: an agent has only those that it began")
	noParent    = problem.New(http.StatusNotFound, "not_found", "the execution that parentExecutionId names is not in this workspace")
	internal    = problem.New(http.StatusInternalServerError, "internal", "something went wrong here; the log says more under the trace")

	// stale says that the version in If-Match, or the version that was read, is no longer current.
	stale = problem.New(http.StatusPreconditionFailed, "changed", "it has been changed meanwhile: read it again")

	unavailable = problem.New(http.StatusServiceUnavailable, "unavailable",
		"the database can't be reached; nothing was changed").Later(retryOutage)
	full      = problem.New(http.StatusServiceUnavailable, "disk_full", noSpace+"; nothing was changed").Later(retryFull)
	uncertain = problem.New(http.StatusServiceUnavailable, "uncertain",
		"the database went away while it was asked to commit: the change may or may not have happened").Later(retryOutage)
	noKey = problem.New(http.StatusServiceUnavailable, "no_key",
		"there is no key to encrypt with, or it can't be used; the log says more under the trace")
	keysAway = problem.New(http.StatusServiceUnavailable, "unavailable",
		"the key service can't be reached; nothing was changed").Later(retryOutage)
	tooSlow = problem.New(http.StatusServiceUnavailable, "timeout", "it took too long").Later(retryOutage)
)

// answers maps errors to problems. The first row that matches counts. No other place maps errors to
// statuses, except [problemOf] for errors that carry data.
var answers = []struct {
	err     error
	problem *problem.Problem
}{
	{lane.ErrLost, lost()},
	{lane.ErrFence, problem.New(http.StatusConflict, "fence_changed",
		"the lane is not held under this fence any more: look who holds it now")},
	{lane.ErrTTL, invalid(problem.At("body.ttlSeconds", lane.ErrTTL.Error()))},
	{lane.ErrToken, invalid(problem.At("body.token", lane.ErrToken.Error()))},
	{trace.ErrInvalid, invalid(problem.At("path.traceId", trace.ErrInvalid.Error()))},
	{auth.ErrNotFound, notFound},
	{auth.ErrTaken, problem.New(http.StatusConflict, "taken", auth.ErrTaken.Error())},
	{auth.ErrLastOwner, problem.New(http.StatusConflict, "last_owner", auth.ErrLastOwner.Error())},
	{auth.ErrInvalid, strange()},
	{auth.ErrForbidden, problem.New(http.StatusForbidden, "forbidden", auth.ErrForbidden.Error())},
	{secret.ErrNotFound, notFound},
	{secret.ErrValue, invalid(problem.At("body.value", secret.ErrValue.Error()))},
	{secret.ErrNoKey, noKey},
	{secret.ErrUnavailable, keysAway},
	{skill.ErrNotFound, notFound},
	{operate.ErrNoSkill, notFound},
	{operate.ErrNeedsApproval, problem.New(http.StatusConflict, "needs_approval", operate.ErrNeedsApproval.Error())},
	{turn.ErrNoThread, noThread},
	{turn.ErrNotYours, problem.New(http.StatusForbidden, "forbidden", turn.ErrNotYours.Error())},
	{operate.ErrNoRun, problem.New(http.StatusConflict, "no_steps", operate.ErrNoRun.Error())},
	{operate.ErrNotOfTrace, problem.New(http.StatusNotFound, "not_found", operate.ErrNotOfTrace.Error())},
	{operate.ErrSeveral, invalid(problem.At("body.executionId", operate.ErrSeveral.Error()))},
	{reason.ErrNoStep, invalid(problem.At("body.step", reason.ErrNoStep.Error()))},
	{reason.ErrNoCall, invalid(problem.At("body.edits.results", reason.ErrNoCall.Error()))},
	{reason.ErrOpenStep, problem.New(http.StatusConflict, "open_step", reason.ErrOpenStep.Error())},
	{skill.ErrTaken, problem.New(http.StatusConflict, "taken", "there is a skill of that name")},
	{skill.ErrChanged, stale},
	{skill.ErrFull, problem.New(http.StatusConflict, "full", "the workspace has as many skills as it may")},
	{objective.ErrChanged, stale},
	{objective.ErrCompleted, problem.New(http.StatusConflict, "completed", objective.ErrCompleted.Error())},
	{project.ErrChanged, stale},
	{project.ErrTaken, problem.New(http.StatusConflict, "taken", project.ErrTaken.Error())},
	{project.ErrNoProject, problem.New(http.StatusNotFound, "not_found", project.ErrNoProject.Error())},
	{memory.ErrChanged, stale},
	{persona.ErrNotFound, notFound},
	{persona.ErrChanged, stale},
	{memory.ErrTaken, problem.New(http.StatusConflict, "taken", memory.ErrTaken.Error())},
	{tenant.ErrChanged, stale},
	{tenant.ErrTaken, problem.New(http.StatusConflict, "taken", tenant.ErrTaken.Error())},
	{tenant.ErrKept, problem.New(http.StatusConflict, "kept", tenant.ErrKept.Error())},
	{tenant.ErrAtWork, problem.New(http.StatusConflict, "at_work", tenant.ErrAtWork.Error())},
	{skill.ErrByHuman, problem.New(http.StatusConflict, "by_human", "a human has disabled the skill since: enable it instead")},
	{automation.ErrNotFound, notFound},
	{automation.ErrTaken, problem.New(http.StatusConflict, "taken", automation.ErrTaken.Error())},
	{automation.ErrChanged, stale},
	{automation.ErrFull, problem.New(http.StatusConflict, "full", automation.ErrFull.Error())},
	{heal.ErrNotFound, notFound},
	{heal.ErrEnded, problem.New(http.StatusConflict, "ended", heal.ErrEnded.Error())},
	{inbox.ErrNotFound, notFound},
	{inbox.ErrTaken, problem.New(http.StatusConflict, "taken", inbox.ErrTaken.Error())},
	{inbox.ErrChanged, stale},
	{inbox.ErrFull, problem.New(http.StatusConflict, "full", inbox.ErrFull.Error())},
	{inbox.ErrWorking, problem.New(http.StatusConflict, "working", inbox.ErrWorking.Error())},
	{endpoint.ErrNotFound, notFound},
	{endpoint.ErrNoDelivery, notFound},
	{endpoint.ErrChanged, stale},
	{endpoint.ErrFull, problem.New(http.StatusConflict, "full", endpoint.ErrFull.Error())},
	{endpoint.ErrDisabled, problem.New(http.StatusConflict, "disabled", endpoint.ErrDisabled.Error())},
	{halt.ErrNotFound, notFound},
	{failure.ErrAgain, problem.New(http.StatusConflict, "failed_again", failure.ErrAgain.Error())},
	{budget.ErrNotFound, notFound},
	{budget.ErrChanged, stale},
	{execution.ErrProtected, problem.New(http.StatusConflict, "protected", "the execution works under a lane: only who holds that ends it")},
	{thread.ErrNotHeld, problem.New(http.StatusConflict, "not_held", thread.ErrNotHeld.Error())},
	{thread.ErrAnswered, problem.New(http.StatusConflict, "answered", thread.ErrAnswered.Error())},
	{thread.ErrKey, problem.New(http.StatusUnprocessableEntity, "other_message", thread.ErrKey.Error())},
	{turn.ErrLine, problem.New(http.StatusTooManyRequests, "full", turn.ErrLine.Error()).Later(retryFull)},
	{thread.ErrFull, problem.New(http.StatusConflict, "full", thread.ErrFull.Error()).Later(retryFull)},
	{db.ErrNoRows, notFound},
	{db.ErrUncertain, uncertain},
	{context.DeadlineExceeded, tooSlow},
	{context.Canceled, tooSlow},
	{db.ErrFull, full},
	{db.ErrUnavailable, unavailable},
	{db.ErrCorrupt, unavailable},
	{db.ErrCheck, invalid()}, // the last line of defence: a schema should have refused it
	{db.ErrUnsafeRole, unavailable},
}

// problem converts an error to the problem that the client receives. A problem never holds the
// error's text. Errors of the server are logged.
func (s *server) problem(ctx context.Context, err error) *problem.Problem {
	p := problemOf(err)
	if p == notFound {
		return s.missing(ctx)
	}
	if p.Status >= http.StatusInternalServerError {
		level := slog.LevelError
		if errors.Is(err, context.Canceled) { // the client has disconnected
			level = slog.LevelInfo
		}
		s.Log.Log(ctx, level, "a request failed", "code", p.Code, "error", err)
	} else if errors.Is(err, db.ErrCheck) {
		s.Log.WarnContext(ctx, "the database refused what the API let through", "error", err)
	}
	return p
}

func problemOf(err error) *problem.Problem {
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return p
	}
	if b, ok := errors.AsType[*lane.BusyError](err); ok {
		return busy(b.Info)
	}
	if held, ok := errors.AsType[*thread.HeldError](err); ok {
		p := problem.New(http.StatusConflict, "busy", "another execution has the thread").Later(held.RetryAfter())
		p.Holder = held.Lock.Execution()
		return p
	}
	if ended, ok := errors.AsType[*execution.EndedError](err); ok {
		p := problem.New(http.StatusConflict, "ended", "the execution has ended")
		p.PresentStatus = string(ended.Status)
		return p
	}
	if wrong, ok := errors.AsType[*operate.InputError](err); ok {
		return misfits("body.input", wrong.Violations)
	}
	if row, ok := errors.AsType[*outbox.StatusError](err); ok {
		p := problem.New(http.StatusConflict, "message_status", "nothing is sent by this: the message is "+string(row.Status))
		p.PresentStatus = string(row.Status)
		return p
	}
	if failed, ok := errors.AsType[*llm.Error](err); ok {
		p := problem.New(http.StatusBadGateway, "model_"+string(failed.Class), "the model did not answer: "+string(failed.Class))
		if failed.RetryAfter > 0 {
			p = p.Later(failed.RetryAfter)
		}
		return p
	}
	if wrong, ok := errors.AsType[*skill.InvalidError](err); ok {
		return invalidSkill(wrong)
	}
	if alike, ok := errors.AsType[*skill.AlikeError](err); ok {
		return problem.New(http.StatusConflict, "taken", alike.Error())
	}
	if wrong, ok := errors.AsType[*auth.FieldError](err); ok {
		return invalid(problem.At("body."+wrong.Field, wrong.Problem))
	}
	if wrong, ok := errors.AsType[*problem.InvalidError](err); ok {
		p := invalid()
		for _, f := range wrong.Fields {
			p.Errors = append(p.Errors, problem.At(located("body."+f.Field), f.Problem))
		}
		return p
	}
	if spent, ok := errors.AsType[*reason.SpentError](err); ok {
		return problem.New(http.StatusConflict, "insufficient", spent.Why)
	}
	if used, ok := errors.AsType[*project.InUseError](err); ok {
		return problem.New(http.StatusConflict, "in_use", used.Error())
	}
	if p := cmp.Or(taskProblem(err), agentProblem(err)); p != nil {
		return p
	}
	if halted, ok := errors.AsType[*reason.HaltedError](err); ok {
		return problem.New(http.StatusConflict, "halted", halted.Why)
	}
	if p := unbudgeted(err); p != nil {
		return p
	}
	for _, a := range answers {
		if errors.Is(err, a.err) {
			return a.problem
		}
	}
	if _, old := errors.AsType[*db.SchemaError](err); old {
		return unavailable
	}
	if _, newer := errors.AsType[*db.NewerSchemaError](err); newer {
		return unavailable
	}
	return internal
}

// strange says that a token is unknown.
func strange() *problem.Problem {
	p := problem.New(http.StatusUnauthorized, "invalid_token", auth.ErrInvalid.Error())
	return p.With("WWW-Authenticate", `Bearer error="invalid_token"`)
}

// lost says that a hold has ended.
func lost() *problem.Problem {
	p := problem.New(http.StatusConflict, "lost", "the hold on the lane is over: it expired, was released or was taken away")
	p.Title = "Lost"
	return p
}

// busy says who holds a lane, and when to retry.
func busy(held lane.Info) *problem.Problem {
	p := problem.New(http.StatusConflict, "busy", "the lane is held").Later(held.Remaining)
	p.Title = "Busy"
	p.Holder = string(held.Holder)
	if until := held.ExpiresAt.UTC(); !until.IsZero() { // zero: free, but another caller is next in the queue
		p.ExpiresAt = &until
	}
	return p
}

func methodNotAllowed(methods []string) *problem.Problem {
	p := problem.New(http.StatusMethodNotAllowed, "method_not_allowed", "this does not go by that method")
	return p.With("Allow", strings.Join(methods, ", "))
}

package api

import (
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
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	wrongs "github.com/lanekeeper/lanekeeper/shared/invalid"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/persona"
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
	retryOutage = 5 * time.Second // after which to come back when the database is away
	retryFull   = time.Minute     // and when there is no room: on a disk, or in a thread whose channel is slow, or dead
)

var (
	// notFound is told with what is not there: see [server.missing].
	notFound    = refusal(http.StatusNotFound, "not_found", "there is nothing here")
	noRoute     = refusal(http.StatusNotFound, "not_found", "the API has no such path: /docs lists those that it has")
	noWorkspace = refusal(http.StatusNotFound, "not_found", "you belong to no workspace of the id that workspaceId names")
	noThread    = refusal(http.StatusNotFound, "not_found", "the thread that threadId names is not in this workspace")
	internal    = refusal(http.StatusInternalServerError, "internal", "something went wrong here; the log says more under the trace")

	// stale says that If-Match, or what was read, is of another version.
	stale = refusal(http.StatusPreconditionFailed, "changed", "it has been changed meanwhile: read it again")

	unavailable = refusal(http.StatusServiceUnavailable, "unavailable", "the database can't be reached; nothing was changed").later(retryOutage)
	full        = refusal(http.StatusServiceUnavailable, "disk_full", noSpace+"; nothing was changed").later(retryFull)
	uncertain   = refusal(http.StatusServiceUnavailable, "uncertain", "the database went away while it was asked to commit: the change may or may not have happened").later(retryOutage)
	noKey       = refusal(http.StatusServiceUnavailable, "no_key", "there is no key to encrypt with, or it can't be used; the log says more under the trace")
	keysAway    = refusal(http.StatusServiceUnavailable, "unavailable", "the key service can't be reached; nothing was changed").later(retryOutage)
	tooSlow     = refusal(http.StatusServiceUnavailable, "timeout", "it took too long").later(retryOutage)
)

// answers is the one place where errors become statuses; the first row that
// matches counts.
var answers = []struct {
	err     error
	problem *Problem
}{
	{lane.ErrLost, lost()},
	{lane.ErrTTL, invalid(FieldError{"body.ttlSeconds", lane.ErrTTL.Error()})},
	{lane.ErrToken, invalid(FieldError{"body.token", lane.ErrToken.Error()})},
	{trace.ErrInvalid, invalid(FieldError{"path.traceId", trace.ErrInvalid.Error()})},
	{auth.ErrNotFound, notFound},
	{auth.ErrTaken, refusal(http.StatusConflict, "taken", auth.ErrTaken.Error())},
	{auth.ErrLastOwner, refusal(http.StatusConflict, "last_owner", auth.ErrLastOwner.Error())},
	{auth.ErrInvalid, strange()},
	{auth.ErrForbidden, refusal(http.StatusForbidden, "forbidden", auth.ErrForbidden.Error())},
	{secret.ErrNotFound, notFound},
	{secret.ErrValue, invalid(FieldError{"body.value", secret.ErrValue.Error()})},
	{secret.ErrNoKey, noKey},
	{secret.ErrUnavailable, keysAway},
	{skill.ErrNotFound, notFound},
	{operate.ErrNoSkill, notFound},
	{operate.ErrNeedsApproval, refusal(http.StatusConflict, "needs_approval", operate.ErrNeedsApproval.Error())},
	{turn.ErrNoThread, noThread},
	{turn.ErrNotYours, refusal(http.StatusForbidden, "forbidden", turn.ErrNotYours.Error())},
	{operate.ErrNoRun, refusal(http.StatusConflict, "no_steps", operate.ErrNoRun.Error())},
	{operate.ErrSeveral, invalid(FieldError{"body.executionId", operate.ErrSeveral.Error()})},
	{reason.ErrNoStep, invalid(FieldError{"body.step", reason.ErrNoStep.Error()})},
	{reason.ErrNoCall, invalid(FieldError{"body.edits.results", reason.ErrNoCall.Error()})},
	{reason.ErrOpenStep, refusal(http.StatusConflict, "open_step", reason.ErrOpenStep.Error())},
	{skill.ErrTaken, refusal(http.StatusConflict, "taken", "there is a skill of that name")},
	{skill.ErrChanged, stale},
	{skill.ErrFull, refusal(http.StatusConflict, "full", "the workspace has as many skills as it may")},
	{objective.ErrChanged, stale},
	{objective.ErrCompleted, refusal(http.StatusConflict, "completed", objective.ErrCompleted.Error())},
	{memory.ErrChanged, stale},
	{persona.ErrNotFound, notFound},
	{persona.ErrChanged, stale},
	{memory.ErrTaken, refusal(http.StatusConflict, "taken", memory.ErrTaken.Error())},
	{tenant.ErrChanged, stale},
	{tenant.ErrTaken, refusal(http.StatusConflict, "taken", tenant.ErrTaken.Error())},
	{tenant.ErrKept, refusal(http.StatusConflict, "kept", tenant.ErrKept.Error())},
	{tenant.ErrAtWork, refusal(http.StatusConflict, "at_work", tenant.ErrAtWork.Error())},
	{skill.ErrByHuman, refusal(http.StatusConflict, "by_human", "a human has disabled the skill since: enable it instead")},
	{automation.ErrNotFound, notFound},
	{automation.ErrTaken, refusal(http.StatusConflict, "taken", automation.ErrTaken.Error())},
	{automation.ErrChanged, stale},
	{automation.ErrFull, refusal(http.StatusConflict, "full", automation.ErrFull.Error())},
	{heal.ErrNotFound, notFound},
	{heal.ErrEnded, refusal(http.StatusConflict, "ended", heal.ErrEnded.Error())},
	{halt.ErrNotFound, notFound},
	{budget.ErrNotFound, notFound},
	{budget.ErrChanged, stale},
	{execution.ErrProtected, refusal(http.StatusConflict, "protected", "the execution works under a lane: only who holds that ends it")},
	{thread.ErrNotHeld, refusal(http.StatusConflict, "not_held", thread.ErrNotHeld.Error())},
	{thread.ErrAnswered, refusal(http.StatusConflict, "answered", thread.ErrAnswered.Error())},
	{thread.ErrKey, refusal(http.StatusUnprocessableEntity, "other_message", thread.ErrKey.Error())},
	{turn.ErrLine, refusal(http.StatusTooManyRequests, "full", turn.ErrLine.Error()).later(retryFull)},
	{thread.ErrFull, refusal(http.StatusConflict, "full", thread.ErrFull.Error()).later(retryFull)},
	{db.ErrNoRows, notFound},
	{db.ErrUncertain, uncertain},
	{context.DeadlineExceeded, tooSlow},
	{context.Canceled, tooSlow},
	{db.ErrFull, full},
	{db.ErrUnavailable, unavailable},
	{db.ErrCorrupt, unavailable},
	{db.ErrCheck, invalid()}, // the last line: a schema should have refused it
	{db.ErrUnsafeRole, unavailable},
}

// problem is what an error is to the caller: never its text. What is our fault is
// logged.
func (s *server) problem(ctx context.Context, err error) *Problem {
	p := problemOf(err)
	if p == notFound {
		return s.missing(ctx)
	}
	if p.Status >= http.StatusInternalServerError {
		level := slog.LevelError
		if errors.Is(err, context.Canceled) { // the caller has left
			level = slog.LevelInfo
		}
		s.Log.Log(ctx, level, "a request failed", "code", p.Code, "error", err)
	} else if errors.Is(err, db.ErrCheck) {
		s.Log.WarnContext(ctx, "the database refused what the API let through", "error", err)
	}
	return p
}

func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if b, ok := errors.AsType[*lane.BusyError](err); ok {
		return busy(b.Info)
	}
	if held, ok := errors.AsType[*thread.HeldError](err); ok {
		p := refusal(http.StatusConflict, "busy", "another execution has the thread").later(held.RetryAfter())
		p.Holder = held.Lock.Execution()
		return p
	}
	if ended, ok := errors.AsType[*execution.EndedError](err); ok {
		p := refusal(http.StatusConflict, "ended", "the execution has ended")
		p.PresentStatus = string(ended.Status)
		return p
	}
	if wrong, ok := errors.AsType[*operate.InputError](err); ok {
		return misfits("body.input", wrong.Violations)
	}
	if row, ok := errors.AsType[*outbox.StatusError](err); ok {
		p := refusal(http.StatusConflict, "message_status", "nothing is sent by this: the message is "+string(row.Status))
		p.PresentStatus = string(row.Status)
		return p
	}
	if failed, ok := errors.AsType[*llm.Error](err); ok {
		p := refusal(http.StatusBadGateway, "model_"+string(failed.Class), "the model did not answer: "+string(failed.Class))
		if failed.RetryAfter > 0 {
			p = p.later(failed.RetryAfter)
		}
		return p
	}
	if wrong, ok := errors.AsType[*skill.InvalidError](err); ok {
		return invalidSkill(wrong)
	}
	if alike, ok := errors.AsType[*skill.AlikeError](err); ok {
		return refusal(http.StatusConflict, "taken", alike.Error())
	}
	if wrong, ok := errors.AsType[*auth.FieldError](err); ok {
		return invalid(FieldError{"body." + wrong.Field, wrong.Problem})
	}
	if wrong, ok := errors.AsType[*wrongs.Error](err); ok {
		p := invalid()
		for _, f := range wrong.Fields {
			p.Errors = append(p.Errors, FieldError{located("body." + f.Field), f.Problem})
		}
		return p
	}
	if spent, ok := errors.AsType[*reason.SpentError](err); ok {
		return refusal(http.StatusConflict, "insufficient", spent.Why)
	}
	if halted, ok := errors.AsType[*reason.HaltedError](err); ok {
		return refusal(http.StatusConflict, "halted", halted.Why)
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

// strange says that a token is nobody's.
func strange() *Problem {
	p := refusal(http.StatusUnauthorized, "invalid_token", auth.ErrInvalid.Error())
	p.header = http.Header{"Www-Authenticate": {`Bearer error="invalid_token"`}}
	return p
}

// lost says that a hold is over.
func lost() *Problem {
	p := refusal(http.StatusConflict, "lost", "the hold on the lane is over: it expired, was released or was taken away")
	p.Title = "Lost"
	return p
}

// busy says who holds a lane, and when to try again.
func busy(held lane.Info) *Problem {
	p := refusal(http.StatusConflict, "busy", "the lane is held").later(held.Remaining)
	p.Title = "Busy"
	p.Holder = string(held.Holder)
	if until := held.ExpiresAt.UTC(); !until.IsZero() { // it is not: somebody is next in line
		p.ExpiresAt = &until
	}
	return p
}

func methodNotAllowed(methods []string) *Problem {
	p := refusal(http.StatusMethodNotAllowed, "method_not_allowed", "this does not go by that method")
	p.header = http.Header{"Allow": {strings.Join(methods, ", ")}}
	return p
}

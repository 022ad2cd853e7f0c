package objective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

var (
	// ErrChanged says that someone else changed the objective after it was read.
	ErrChanged = errors.New("the objective has been changed meanwhile")
	// ErrCompleted says that the objective is completed, which is final.
	ErrCompleted = errors.New("the objective is completed")
)

// Admin holds the operations of people on objectives. They do not wait for the objective's lane,
// which a beat may hold for minutes: a person's change takes effect immediately.
//
// Agents never write the fields that [Admin.Patch] changes. A status is a condition of the agents'
// statements. After a pause or a completion, the running execution may still end its step, and its
// current call is recorded. Everything that needs an active objective is refused to it.
// [Admin.Interrupt] stops it at its next step. After a plan was replaced or the objective was
// deleted, nothing of the execution could be recorded. So [Admin.ReplaceSteps] and [Admin.Delete]
// end the hold and the execution.
type Admin struct {
	*Store
	lanes   *lane.Store
	runs    *execution.Store
	release func(ctx context.Context, tx execution.Tx, execution string) (int, error)
}

// NewAdmin returns an Admin of the stores. release releases the threads of an execution that has ended.
func NewAdmin(
	s *Store, lanes *lane.Store, runs *execution.Store, release func(ctx context.Context, tx execution.Tx, execution string) (int, error),
) *Admin {
	return &Admin{s, lanes, runs, release}
}

// Patch is a change of an objective. A nil field stays as it is.
type Patch struct {
	Title         *string
	Description   *string
	Priority      *int
	DoneCriterion *string
}

// Create adds an active objective without a plan and returns it. Errors: [skill.InvalidError].
func (a *Admin) Create(ctx context.Context, tx *db.Tx, o Objective) (Objective, error) {
	o.discreet(ctx)
	if err := check(&o); err != nil {
		return Objective{}, err
	}
	return a.read(ctx, tx, a.Store.Create(tx.Later(), o))
}

// Patch changes an objective that [Store.Get] returned, and returns the stored objective. Errors:
// [skill.InvalidError], [ErrChanged].
func (a *Admin) Patch(ctx context.Context, tx *db.Tx, o Objective, p Patch) (Objective, error) {
	db.Patch(&o.Title, p.Title)
	db.Patch(&o.Description, p.Description)
	db.Patch(&o.Priority, p.Priority)
	db.Patch(&o.DoneCriterion, p.DoneCriterion)
	o.discreet(ctx)
	if err := check(&o); err != nil {
		return Objective{}, err
	}
	n, err := tx.Exec(ctx, a.q.Patch, o.ID, o.Version, o.Title, o.Description, o.Priority, o.DoneCriterion)
	if err != nil {
		return Objective{}, fmt.Errorf("change objective %s: %w", o.ID, err)
	}
	if n == 0 {
		return Objective{}, ErrChanged
	}
	return a.read(ctx, tx, o.ID)
}

// ReplaceSteps replaces the plan of an objective that [Store.Get] returned. An execution that works
// on the objective loses its hold and is canceled, because its step numbers now mean other steps.
// Errors: [skill.InvalidError], [ErrChanged], [ErrCompleted].
func (a *Admin) ReplaceSteps(ctx context.Context, tx *db.Tx, o Objective, steps []Step) (Objective, error) {
	steps, err := checkSteps(discreetSteps(ctx, steps))
	if err != nil {
		return Objective{}, err
	}
	hold, err := a.seize(ctx, tx, o.ID)
	if err != nil {
		return Objective{}, fmt.Errorf("take the lane of objective %s: %w", o.ID, err)
	}
	var versions []int
	err = tx.Each(ctx, func(scan db.Scan) error {
		versions = append(versions, 0)
		return scan(&versions[0])
	}, a.q.PlanAnew, o.ID, o.Version)
	if err != nil {
		return Objective{}, fmt.Errorf("plan objective %s: %w", o.ID, err)
	}
	if len(versions) == 0 {
		if now, err := a.read(ctx, tx, o.ID); err == nil && now.Status == Completed {
			return Objective{}, ErrCompleted
		}
		return Objective{}, ErrChanged
	}
	a.addSteps(tx.Later(), o.ID, versions[0], steps)
	if err := a.cancel(ctx, tx, hold, "a person replaced the plan"); err != nil {
		return Objective{}, fmt.Errorf("plan objective %s: %w", o.ID, err)
	}
	return a.read(ctx, tx, o.ID)
}

// Delete deletes an objective with its plan. An execution that works on it loses its hold and is
// canceled. Errors: [db.ErrNoRows].
func (a *Admin) Delete(ctx context.Context, tx *db.Tx, id string) error {
	hold, err := a.seize(ctx, tx, id)
	if err != nil {
		return fmt.Errorf("take the lane of objective %s: %w", id, err)
	}
	n, err := tx.Exec(ctx, a.q.Delete, id)
	if err == nil && n == 0 {
		err = db.ErrNoRows
	}
	if err != nil {
		return fmt.Errorf("delete objective %s: %w", id, err)
	}
	if err := a.cancel(ctx, tx, hold, "its objective was deleted"); err != nil {
		return fmt.Errorf("delete objective %s: %w", id, err)
	}
	return nil
}

// cancel ends the execution that works on an objective, and releases its threads and the objective's lane.
func (a *Admin) cancel(ctx context.Context, tx *db.Tx, hold *lane.Hold, why string) error {
	ended := a.runs.Cancel(tx.Later(), hold.Lane, why)
	a.lanes.ReleaseIn(tx.Later(), hold)
	if err := tx.Flush(ctx); err != nil {
		return err
	}
	for _, id := range *ended {
		if _, err := a.release(ctx, tx, id); err != nil {
			return err
		}
	}
	return nil
}

// seize ends any hold on an objective's lane and acquires the lane itself. Nobody sees that hold,
// because the transaction also releases it. Others that want the lane wait for the commit and see
// its result.
func (a *Admin) seize(ctx context.Context, tx *db.Tx, id string) (*lane.Hold, error) {
	name := lane.Objective(id)
	for {
		if _, err := a.lanes.ForceRelease(ctx, tx, name); err != nil {
			return nil, err
		}
		t, err := a.lanes.Ask(ctx, tx.Later(), lane.Request{Lane: name, Holder: "admin", TTL: name.TTL()})
		if err == nil {
			err = tx.Flush(ctx)
		}
		if err != nil {
			return nil, err
		}
		hold, err := a.lanes.Answer(ctx, t)
		if _, busy := errors.AsType[*lane.BusyError](err); busy {
			continue // another holder acquired the lane between the two statements; that can't happen again
		}
		return hold, err
	}
}

// Pause pauses an objective: beats no longer work on it. It stores the reason, unless the objective is
// paused already. Errors: [db.ErrNoRows], [ErrCompleted], [skill.InvalidError].
func (a *Admin) Pause(ctx context.Context, tx *db.Tx, id, reason string) (Objective, error) {
	reason, err := checkText("reason", discreet(ctx, reason), 1, MaxReason)
	if err != nil {
		return Objective{}, err
	}
	o, _, err := a.become(ctx, tx, Paused, id, a.q.Pause, reason)
	return o, err
}

// Resume makes a paused objective active again and resets its attempts. Errors: [db.ErrNoRows],
// [ErrCompleted].
func (a *Admin) Resume(ctx context.Context, tx *db.Tx, id string) (Objective, error) {
	o, changed, err := a.become(ctx, tx, Active, id, a.q.Resume)
	if err != nil || !changed {
		return o, err
	}
	tx.Later().Exec(a.q.TryAgain, id)
	return a.read(ctx, tx, id)
}

// Complete completes an objective, even if it is paused or its plan has open steps. Errors:
// [db.ErrNoRows], [skill.InvalidError].
func (a *Admin) Complete(ctx context.Context, tx *db.Tx, id, summary string) (Objective, error) {
	summary, err := checkText("summary", discreet(ctx, summary), 0, MaxDescription)
	if err != nil {
		return Objective{}, err
	}
	o, _, err := a.become(ctx, tx, Completed, id, a.q.Finish, db.Null(summary))
	return o, err
}

// become changes the status with a statement that changes no row if the change is not allowed. It
// reports whether the statement changed the row.
func (a *Admin) become(ctx context.Context, tx *db.Tx, want Status, id string, q db.Query, args ...any) (Objective, bool, error) {
	n, err := tx.Exec(ctx, q, append([]any{id}, args...)...)
	if err != nil {
		return Objective{}, false, fmt.Errorf("make objective %s %s: %w", id, want, err)
	}
	o, err := a.read(ctx, tx, id)
	if err == nil && o.Status != want {
		err = ErrCompleted
	}
	return o, n > 0, err
}

const (
	firstLook   = 20 * time.Millisecond
	longestLook = time.Second
)

// Interrupt asks the holder of the objective's lane to stop at its next step. It returns when the
// hold is marked or has ended. A hold can't be marked while a transaction uses it, so Interrupt
// retries until the context ends. Call it after the transaction that pauses or completes the
// objective.
func (a *Admin) Interrupt(ctx context.Context, ws db.Workspace, id, by string) error {
	var met int64 // the fence of the hold to interrupt
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		var b db.Batch
		info := a.lanes.PeekIn(&b, lane.Objective(id))
		if err := a.db.Read(ctx, ws, &b); err != nil {
			return fmt.Errorf("look who works on objective %s: %w", id, err)
		}
		if !info.Held() || info.WantedAt != nil || met != 0 && info.Fence != met {
			return nil
		}
		met = info.Fence
		if err := a.lanes.Want(ctx, ws, *info, by); err != nil && !errors.Is(err, db.ErrUnavailable) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("ask whoever works on objective %s to stop: %w", id, ctx.Err())
		}
	}
}

// read returns the objective as the transaction has written it.
func (a *Admin) read(ctx context.Context, tx *db.Tx, id string) (Objective, error) {
	found := a.GetIn(tx.Later(), id)
	err := tx.Flush(ctx)
	return db.Found(*found, err, "read objective", fmt.Errorf("read objective: %w", db.ErrNoRows))
}

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
	// ErrChanged says that somebody else has changed the objective since it was read.
	ErrChanged = errors.New("the objective has been changed meanwhile")
	// ErrCompleted says that an objective has been completed, which is for good.
	ErrCompleted = errors.New("the objective is completed")
)

// Admin is what people do to objectives. They don't wait for the lane of one, which a
// beat may hold for minutes: their word counts at once.
//
// What an objective says ([Admin.Patch]) no agent writes. A status is a condition of
// the agents' statements: under an objective that was paused or completed the run at
// work may still end its step, the call it is in the middle of is recorded, and
// whatever needs an active objective is refused to it; [Admin.Interrupt] has it stop
// at its next step. A plan that was replaced leaves nothing that could be recorded,
// nor does an objective that was deleted: [Admin.ReplaceSteps] and [Admin.Delete] end the
// hold and the run.
type Admin struct {
	*Store
	lanes *lane.Store
	runs  *execution.Store
}

// NewAdmin makes an Admin of the stores.
func NewAdmin(s *Store, lanes *lane.Store, runs *execution.Store) *Admin {
	return &Admin{s, lanes, runs}
}

// Patch is a change of an objective; nil leaves a field as it is.
type Patch struct {
	Title         *string
	Description   *string
	Priority      *int
	DoneCriterion *string
}

// Create adds an active objective without a plan and answers it. Errors:
// [skill.InvalidError].
func (a *Admin) Create(ctx context.Context, tx *db.Tx, o Objective) (Objective, error) {
	if err := check(&o); err != nil {
		return Objective{}, err
	}
	return a.read(ctx, tx, a.Store.Create(tx.Later(), o))
}

// Patch changes an objective as it was read by [Store.Get], and answers it as it
// stands then. Errors: [skill.InvalidError], [ErrChanged].
func (a *Admin) Patch(ctx context.Context, tx *db.Tx, o Objective, p Patch) (Objective, error) {
	set(&o.Title, p.Title)
	set(&o.Description, p.Description)
	set(&o.Priority, p.Priority)
	set(&o.DoneCriterion, p.DoneCriterion)
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

// ReplaceSteps gives an objective, as it was read by [Store.Get], a new plan. What
// works on it loses its hold and is cancelled: the numbers of its steps are others'
// from now on. Errors: [skill.InvalidError], [ErrChanged], [ErrCompleted].
func (a *Admin) ReplaceSteps(ctx context.Context, tx *db.Tx, o Objective, steps []Step) (Objective, error) {
	steps, err := checkSteps(steps)
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
	a.runs.Cancel(tx.Later(), hold.Lane, "a person replaced the plan")
	a.lanes.ReleaseIn(tx.Later(), hold)
	return a.read(ctx, tx, o.ID)
}

// Delete takes an objective away, with its plan. What works on it loses its hold and is
// cancelled. Errors: [db.ErrNoRows].
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
	a.runs.Cancel(tx.Later(), hold.Lane, "its objective was deleted")
	a.lanes.ReleaseIn(tx.Later(), hold)
	return nil
}

// seize ends whatever hold there is on an objective's lane and holds it itself, which
// nobody sees: the transaction ends it. Who asks for the lane meanwhile waits for the
// commit and sees what it brought.
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
			continue // somebody took it between the two; now that can't happen again
		}
		return hold, err
	}
}

// Pause takes an objective out of the beats, with the reason that stands with it, and
// reports whether that changed anything. Errors: [db.ErrNoRows], [ErrCompleted],
// [skill.InvalidError].
func (a *Admin) Pause(ctx context.Context, tx *db.Tx, id, reason string) (Objective, bool, error) {
	reason, err := checkText("reason", reason, 1, MaxReason)
	if err != nil {
		return Objective{}, false, err
	}
	return a.become(ctx, tx, Paused, id, a.q.Pause, reason)
}

// Resume gives a paused objective back to the beats, with all tries before it, and
// reports whether that changed anything. Errors: [db.ErrNoRows], [ErrCompleted].
func (a *Admin) Resume(ctx context.Context, tx *db.Tx, id string) (Objective, bool, error) {
	o, changed, err := a.become(ctx, tx, Active, id, a.q.Resume)
	if err != nil || !changed {
		return o, false, err
	}
	tx.Later().Exec(a.q.TryAgain, id)
	o, err = a.read(ctx, tx, id)
	return o, err == nil, err
}

// Complete ends an objective, also a paused one and one whose plan has open steps,
// and reports whether that changed anything. Errors: [db.ErrNoRows],
// [skill.InvalidError].
func (a *Admin) Complete(ctx context.Context, tx *db.Tx, id, summary string) (Objective, bool, error) {
	summary, err := checkText("summary", summary, 0, MaxDescription)
	if err != nil {
		return Objective{}, false, err
	}
	return a.become(ctx, tx, Completed, id, a.q.Finish, db.Null(summary))
}

// become changes a status by a statement that changes nothing where it must not.
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

// Interrupt asks whoever works on an objective to stop at its next step, and returns when
// the hold is marked, or over. A hold under which a transaction works can't be marked
// meanwhile: that is tried until the context ends. It is for after the transaction that
// pauses or completes the objective.
func (a *Admin) Interrupt(ctx context.Context, ws db.Workspace, id, by string) error {
	var met int64 // the fence of the hold that is meant
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

// read is an objective as the transaction has made it.
func (a *Admin) read(ctx context.Context, tx *db.Tx, id string) (Objective, error) {
	found := a.GetIn(tx.Later(), id)
	if err := tx.Flush(ctx); err != nil {
		return Objective{}, fmt.Errorf("read objective: %w", err)
	}
	if len(*found) == 0 {
		return Objective{}, fmt.Errorf("read objective: %w", db.ErrNoRows)
	}
	return (*found)[0], nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

package skill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Create registers a skill that is not built in, under its id if it has one, and returns the stored definition. Errors:
// [InvalidError], [ErrTaken], [AlikeError], [ErrFull]. The transaction sends nothing until the
// definition is found valid. On [AlikeError] and [ErrFull] the row is already written: the caller
// must roll the transaction back.
func (r *Registry) Create(ctx context.Context, tx Tx, d Definition) (Definition, error) {
	d.ID, d.Scope = cmp.Or(d.ID, r.ids()), cmp.Or(d.Scope, Internal)
	if err := r.checkGiven(&d, d.Config); err != nil {
		return Definition{}, err
	}
	if code, taken := r.builtins.Find(d.Name); taken {
		return Definition{}, clash(d.Name, code.Name)
	}
	if !d.Enabled {
		d = d.disabled(Human, d.DisabledReason)
	}
	var rows int
	alike := ""
	tx.Later().Exec(r.q.LockHead) // two concurrent calls must not exceed the limit or store names that are alike
	tx.Later().One([]any{&rows}, r.q.Count)
	tx.Later().Each(func(scan db.Scan) error { return scan(&alike) }, r.q.Alike, fold(d.Name))
	created, err := r.insert(ctx, tx, d)
	switch {
	case errors.Is(err, db.ErrUnique):
		return Definition{}, ErrTaken
	case err != nil:
		return Definition{}, fmt.Errorf("create skill %s: %w", d.Name, err)
	case alike != "":
		return Definition{}, clash(d.Name, alike) // the caller rolls the transaction back
	case rows >= MaxSkills:
		return Definition{}, ErrFull
	}
	return created, nil
}

// clash returns the error for a name that is equal or alike to another skill's name.
func clash(name, other string) error {
	if name == other {
		return ErrTaken
	}
	return &AlikeError{name, other}
}

// Patch changes a skill that [Registry.Get] returned, and returns the stored definition. The
// description, parameters, config, effect and results of a built-in skill can't be changed. Errors:
// [InvalidError], [ErrChanged]. The transaction sends nothing until the change is found valid.
func (r *Registry) Patch(ctx context.Context, tx Tx, ws db.Workspace, d Definition, p Patch) (Definition, error) {
	d = d.patched(p)
	if d.Kind != Builtin {
		if err := r.checkGiven(&d, p.Config); err != nil {
			return Definition{}, err
		}
		return r.put(ctx, tx, ws, d)
	}
	bad := &InvalidError{}
	const fixed = "is a built-in skill's own, and can't be changed"
	bad.If(p.Description != nil, "description", fixed)
	bad.If(p.Parameters != nil, "parameters", fixed)
	bad.If(p.Config != nil, "config", fixed)
	bad.If(p.Effect != nil, "effect", fixed)
	bad.If(p.Results != nil, "results", fixed)
	checkCommon(bad, &d)
	if err := bad.OrNil(); err != nil {
		return Definition{}, err
	}
	return r.put(ctx, tx, ws, d)
}

// checkGiven checks a definition. config is what the caller gave with it: it must hold no
// credentials in the clear.
func (r *Registry) checkGiven(d *Definition, config json.RawMessage) error {
	if err := r.check(d); err != nil {
		return err
	}
	bad := &InvalidError{}
	checkClear(bad, config)
	return bad.OrNil()
}

// Delete deletes a skill's row and returns what was stored. A built-in skill stays and loses its
// changes only. Errors: [ErrNotFound].
func (r *Registry) Delete(ctx context.Context, tx Tx, ws db.Workspace, ref string) (Definition, error) {
	d, err := r.GetIn(ctx, tx, ws, ref)
	if err != nil {
		return Definition{}, err
	}
	tx.Later().Exec(r.q.Delete, d.ID)
	return d, nil
}

// Disable disables a skill and reports whether that changed anything. On a disabled skill it
// changes nothing, with one exception: a human replaces the reason of self-healing. Errors:
// [ErrNotFound], [ErrChanged], [InvalidError].
func (r *Registry) Disable(ctx context.Context, tx Tx, ws db.Workspace, ref string, by Actor, reason string) (Definition, bool, error) {
	d, err := r.GetIn(ctx, tx, ws, ref)
	if err != nil {
		return Definition{}, false, err
	}
	if !d.Enabled && (d.DisabledBy == by || by == SelfHealing) {
		return d, false, nil
	}
	d = d.disabled(by, reason)
	bad := &InvalidError{}
	if checkCommon(bad, &d); len(bad.Fields) > 0 {
		return Definition{}, false, bad
	}
	d, err = r.put(ctx, tx, ws, d)
	return d, err == nil, err
}

// Enable enables a skill and reports whether that changed anything. Errors: [ErrNotFound],
// [ErrChanged]. Self-healing gets [ErrByHuman] for a skill that a human has disabled.
func (r *Registry) Enable(ctx context.Context, tx Tx, ws db.Workspace, ref string, by Actor) (Definition, bool, error) {
	d, err := r.GetIn(ctx, tx, ws, ref)
	if err != nil || d.Enabled {
		return d, false, err
	}
	if d.DisabledBy == Human && by != Human {
		return d, false, ErrByHuman
	}
	d, err = r.put(ctx, tx, ws, d.enabled())
	return d, err == nil, err
}

// put writes d over the version that was read. It returns [ErrChanged] if another version is
// stored.
func (r *Registry) put(ctx context.Context, tx Tx, ws db.Workspace, d Definition) (Definition, error) {
	var written []Definition
	var err error
	if d.Version == 0 { // a built-in skill that has no row yet
		d.CreatedBy = string(cmp.Or(d.DisabledBy, Human))
		var row Definition
		if row, err = r.insert(ctx, tx, d); errors.Is(err, db.ErrUnique) {
			return Definition{}, ErrChanged
		}
		written = append(written, row)
	} else {
		err = tx.Each(ctx, collect(&written), r.q.Update, append([]any{d.ID, d.Version}, values(d)...)...)
	}
	if err != nil {
		return Definition{}, fmt.Errorf("change skill %s: %w", d.Name, err)
	}
	if len(written) == 0 {
		return Definition{}, ErrChanged
	}
	if d.Kind == Builtin {
		code, _ := r.builtins.exact(d.Name) // the name was found there before
		return overridden(ws, code, &written[0]), nil
	}
	return written[0], nil
}

func (r *Registry) insert(ctx context.Context, tx Tx, d Definition) (Definition, error) {
	var written []Definition
	args := append([]any{d.ID, d.Name, d.Kind}, values(d)...)
	if err := tx.Each(ctx, collect(&written), r.q.Insert, append(args, d.CreatedBy)...); err != nil {
		return Definition{}, err
	}
	return written[0], nil
}

// values returns the columns of a row in the order of the Insert and Update statements.
func values(d Definition) []any {
	out := []any{d.Description, string(d.Parameters), d.Config, d.Scope, db.Null(d.Effect), db.Null(d.Results), d.RequiresApproval,
		d.Serial, seconds(d.Timeout)}
	if d.Kind == Builtin {
		c := d.changes
		out = []any{nil, nil, nil, c.scope, nil, nil, c.approval, c.serial, nil}
		if c.timeout != nil {
			out[8] = seconds(*c.timeout)
		}
	}
	return append(out, d.Enabled, db.Null(d.DisabledBy), db.Null(d.DisabledReason))
}

// seconds returns the value of the timeout column. Null means the workspace's default.
func seconds(limit time.Duration) any { return db.Null(int64(limit / time.Second)) }

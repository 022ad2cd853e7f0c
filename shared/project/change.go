package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Create adds an item, under its id if it has one, and returns it. Errors: [problem.InvalidError], [ErrTaken], [ErrNoProject]. After
// ErrTaken the transaction can't be used any more.
func (s *Store) Create(ctx context.Context, tx *db.Tx, i Item) (Item, error) {
	if err := i.check(ctx); err != nil {
		return Item{}, err
	}
	args := []any{cmp.Or(i.ID, s.ids()), i.Name, i.Description, i.CreatedBy}
	if s.projects != nil {
		tx.Later().Exec(s.projects.q.hold, i.Project)
		of, err := s.projects.in(ctx, tx, i.Project)
		switch {
		case errors.Is(err, db.ErrNoRows):
			return Item{}, ErrNoProject
		case err != nil:
			return Item{}, err
		case of.ArchivedAt != nil:
			return Item{}, problem.Invalid("projectId", "names an archived project: restore it first")
		}
		args = append(args, i.Project, i.DueAt)
	}
	var made []Item
	err := tx.Each(ctx, collect(&made), s.q.create, args...)
	return written(made, err)
}

// written returns the row of a change.
func written(rows []Item, err error) (Item, error) {
	switch {
	case errors.Is(err, db.ErrUnique):
		return Item{}, ErrTaken
	case errors.Is(err, db.ErrReference):
		return Item{}, ErrNoProject
	case err != nil:
		return Item{}, fmt.Errorf("write a project or a milestone: %w", err)
	case len(rows) == 0:
		return Item{}, ErrChanged
	}
	return rows[0], nil
}

// in reads an item in a transaction.
func (s *Store) in(ctx context.Context, tx *db.Tx, id string) (Item, error) {
	var found []Item
	err := tx.Each(ctx, collect(&found), s.q.get, id)
	if err == nil && len(found) == 0 {
		err = db.ErrNoRows
	}
	if err != nil {
		return Item{}, fmt.Errorf("read a project or a milestone: %w", err)
	}
	return found[0], nil
}

// Patch is a change of an item. A nil field stays as it is.
type Patch struct {
	Name, Description *string
	Archived          *bool
	DueAt             **time.Time // of a milestone
}

// Patch changes an item and returns it. match may refuse the item as it is. Errors: [db.ErrNoRows],
// [problem.InvalidError], [ErrTaken], [ErrChanged]. After ErrTaken the transaction can't be used any
// more.
func (s *Store) Patch(ctx context.Context, tx *db.Tx, id string, match func(Item) error, p Patch) (Item, error) {
	i, err := s.in(ctx, tx, id)
	if err == nil {
		err = match(i)
	}
	if err != nil {
		return Item{}, err
	}
	db.Patch(&i.Name, p.Name)
	db.Patch(&i.Description, p.Description)
	db.Patch(&i.DueAt, p.DueAt)
	archived := i.ArchivedAt != nil
	db.Patch(&archived, p.Archived)
	if err := i.check(ctx); err != nil {
		return Item{}, err
	}
	args := []any{id, i.Version, i.Name, i.Description, archived}
	if s.projects != nil {
		args = append(args, i.DueAt)
	}
	var changed []Item
	err = tx.Each(ctx, collect(&changed), s.q.patch, args...)
	return written(changed, err)
}

// Delete deletes an item to which nothing refers. Errors: [db.ErrNoRows], [InUseError].
func (s *Store) Delete(ctx context.Context, tx *db.Tx, id string) error {
	tx.Later().Exec(s.q.hold, id) // what was added to it meanwhile counts in the next statement
	n, err := tx.Exec(ctx, s.q.remove, id)
	if err != nil {
		return fmt.Errorf("delete a project or a milestone: %w", err)
	}
	if n > 0 {
		return nil
	}
	if _, err := s.in(ctx, tx, id); err != nil {
		return err
	}
	var by InUseError
	if err := tx.One(ctx, []any{&by.Milestones, &by.Tasks, &by.Budgets}, s.q.users, id); err != nil {
		return fmt.Errorf("count what has a project or a milestone: %w", err)
	}
	return &by
}

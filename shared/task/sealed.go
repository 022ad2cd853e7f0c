package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// InputPlace returns the place of a task's encrypted input.
func InputPlace(ws db.Workspace, id string) secret.Place {
	return secret.Place{Workspace: ws, Table: "agent_tasks", Column: "sealed_input", Row: id}
}

// SealInput redacts the secrets in the input of a new task, which must have its id. If there are any,
// it keeps the original encrypted. It may call the key service: don't call it in a transaction. A known
// secret of the configuration or of the workspace stays, so that [Store.Create] refuses it.
func (t *Task) SealInput(ctx context.Context, ws db.Workspace, secrets *secret.Store) (err error) {
	r := redact.From(ctx)
	if !json.Valid(t.Input) || !bytes.Equal(r.Values().JSON(t.Input), t.Input) {
		return nil
	}
	shown := r.JSON(t.Input)
	if bytes.Equal(shown, t.Input) {
		return nil
	}
	if t.Sealed, err = secrets.SealAt(ctx, InputPlace(ws, t.ID), secret.NewValue(string(t.Input))); err != nil {
		return fmt.Errorf("seal the input of task %s: %w", t.ID, err)
	}
	t.Input = shown
	return nil
}

// GivenInput returns the input of a task for the agent of an attempt: with its secrets, and with the
// values of the secrets that it refers to. It may call the key service. Errors: those of
// [secret.Expand] and [secret.Store.OpenAt].
func (s *Store) GivenInput(ctx context.Context, ws db.Workspace, t Task, secrets *secret.Store) (json.RawMessage, error) {
	input := t.Input
	if bytes.Contains(input, []byte(redact.Mark)) {
		var sealed []byte
		err := s.db.Each(ctx, ws, func(scan db.Scan) error { return scan(&sealed) }, s.q.SealedInput, t.ID)
		if err != nil {
			return nil, fmt.Errorf("read the sealed input of task %s: %w", t.ID, err)
		}
		if sealed != nil {
			given, err := secrets.OpenAt(ctx, InputPlace(ws, t.ID), sealed)
			if err != nil {
				return nil, fmt.Errorf("open the input of task %s: %w", t.ID, err)
			}
			input = json.RawMessage(given.Reveal())
		}
	}
	v, err := secret.Expand(ctx, ws, input, secrets)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(v.Reveal()), nil
}

// Unreadable reports whether an error of [Store.GivenInput] stays until a person changes the task, a secret
// that it refers to, or the key. Otherwise the key service or the database is away.
func Unreadable(err error) bool {
	_, missing := errors.AsType[*secret.NotFoundError](err)
	return missing || errors.Is(err, secret.ErrConfig) || errors.Is(err, secret.ErrName) || secret.Lasting(err)
}

// SealedInputs lists at most limit encrypted inputs of tasks, ordered by id, with ids greater than
// after.
func (s *Store) SealedInputs(ctx context.Context, ws db.Workspace, after string, limit int) (found []execution.Sealed, err error) {
	err = s.db.Each(ctx, ws, db.Append(&found, func(scan db.Scan, one *execution.Sealed) error {
		return scan(&one.ID, &one.Input)
	}), s.q.SealedInputs, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list sealed inputs of tasks: %w", err)
	}
	return found, nil
}

// ResealInput replaces an encrypted input and reports whether it was still the one that was read.
func (s *Store) ResealInput(ctx context.Context, ws db.Workspace, was execution.Sealed, now []byte) (bool, error) {
	n, err := s.db.Exec(ctx, ws, s.q.ResealInput, was.ID, now, was.Input)
	if err != nil {
		return false, fmt.Errorf("seal the input of task %s anew: %w", was.ID, err)
	}
	return n > 0, nil
}

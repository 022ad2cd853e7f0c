package execution

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// InputPlace returns the place of an execution's sealed input.
func InputPlace(ws db.Workspace, id string) secret.Place {
	return secret.Place{Workspace: ws, Table: "executions", Column: "sealed_input", Row: id}
}

// Sealed is the encrypted input of an execution.
type Sealed struct {
	ID    string
	Input []byte
}

// SealedInputs lists at most limit encrypted inputs of unfinished executions, ordered by id, with
// ids greater than after.
func (s *Store) SealedInputs(ctx context.Context, ws db.Workspace, after string, limit int) (found []Sealed, err error) {
	err = s.db.Each(ctx, ws, db.Append(&found, func(scan db.Scan, one *Sealed) error {
		return scan(&one.ID, &one.Input)
	}), s.q.SealedInputs, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list sealed inputs: %w", err)
	}
	return found, nil
}

// ResealInput replaces an encrypted input and reports whether it was still the one that was read.
func (s *Store) ResealInput(ctx context.Context, ws db.Workspace, was Sealed, now []byte) (bool, error) {
	n, err := s.db.Exec(ctx, ws, s.q.ResealInput, was.ID, now, was.Input)
	if err != nil {
		return false, fmt.Errorf("seal the input of execution %s anew: %w", was.ID, err)
	}
	return n > 0, nil
}

// SealedInput returns the encrypted input of an unfinished execution, or nil when there is none.
func (s *Store) SealedInput(ctx context.Context, ws db.Workspace, id string) (sealed []byte, err error) {
	err = s.db.Each(ctx, ws, func(scan db.Scan) error { return scan(&sealed) }, s.q.SealedInput, id)
	if err != nil {
		return nil, fmt.Errorf("read the sealed input of execution %s: %w", id, err)
	}
	return sealed, nil
}

package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// An Explanation says why a lane is or isn't free, as data and as one sentence.
type Explanation struct {
	Info
	Held    bool
	Summary string
}

// Explain says who holds a lane, since when, until when at the latest, and who waits. doing may be
// nil; otherwise it describes what the holder's execution is doing.
func (s *Store) Explain(ctx context.Context, ws db.Workspace, name Name, doing func(execution string) string) (Explanation, error) {
	info, err := s.Peek(ctx, ws, name)
	if errors.Is(err, db.ErrNoRows) {
		return Explanation{Info: Info{Lane: name}, Summary: fmt.Sprintf("lane %s is free: nobody has held it lately", name)}, nil
	}
	if err != nil {
		return Explanation{}, err
	}
	if !info.Held() {
		e := Explanation{Info: info, Summary: fmt.Sprintf("lane %s is free; the last to hold it was %s", name, info.Holder)}
		if left := info.Lingers(); left > 0 {
			e.Summary += fmt.Sprintf("; to heartbeats it counts as held for another %s", left.Round(time.Second))
		}
		return e, nil
	}
	e := Explanation{Info: info, Held: true}
	e.Summary = fmt.Sprintf("lane %s is held by %s", name, info.Holder)
	if info.Trace != "" {
		e.Summary += ", trace " + info.Trace
	}
	if doing != nil && info.Execution != "" {
		if at := doing(info.Execution); at != "" {
			e.Summary += ", " + at
		}
	}
	e.Summary += fmt.Sprintf(", since %s; it ends in %s at the latest unless renewed",
		info.Age.Round(time.Second), info.Remaining.Round(time.Second))
	if info.WantedBy != "" {
		e.Summary += fmt.Sprintf("; %s waits for it", info.WantedBy)
	}
	return e, nil
}

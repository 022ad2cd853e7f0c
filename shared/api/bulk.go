package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

const (
	// maxBulk is the largest number of rows that one request changes.
	maxBulk = 10_000
	// bulkPage is how many rows one statement finds.
	bulkPage = 200
	// bulkTime bounds the work of one request. Behind a gateway a response may take 29 seconds.
	bulkTime = 25 * time.Second
	// bulkLimit is all the time that a request takes, with the row of the audit log and the answer that is kept.
	bulkLimit = bulkTime + limit + keyEnd
)

// bulkAnswer says what became of the rows that a filter matches.
type bulkAnswer struct {
	Matched int `json:"matched"`
	Changed int `json:"changed"`
	Refused int `json:"refused" doc:"Their state does not allow the action, or they were gone. What is neither changed nor refused is left: the request's time was over, and it can be sent again"`
}

type bulkOutput struct {
	Status int
	Body   bulkAnswer
}

// bulk changes all rows that a filter matches, each in a transaction of its own and by its own rules. It
// refuses to begin when they are not as many as the caller was shown. find adds the ids of the rows after
// those that it has added, a page at a time, and reports whether there may be more. One row of the audit
// log names the action, the filter and the outcome.
func (s *server) bulk(ctx context.Context, what string, filter any, reason string, expected int,
	find func(ctx context.Context, ids []string) ([]string, bool, error), do func(ctx context.Context, id string) error) (*bulkOutput, error) {
	working, stop := context.WithTimeout(ctx, bulkTime)
	defer stop()
	var ids []string
	for more := true; more; {
		var err error
		if ids, more, err = find(working, ids); err != nil {
			return nil, err
		}
		if len(ids) > maxBulk {
			return nil, invalid(problem.At("body.filter", fmt.Sprintf("matches more than %d: narrow it", maxBulk)))
		}
	}
	if len(ids) != expected {
		p := problem.New(http.StatusConflict, "count_changed",
			fmt.Sprintf("the filter matches %d now, and not %d: look again, then repeat", len(ids), expected))
		p.Count = new(len(ids))
		return nil, p
	}
	out := bulkAnswer{Matched: len(ids)}
	var failed error
	for _, id := range ids {
		if working.Err() != nil {
			break
		}
		err := do(working, id)
		for try := 1; try < maxTries && raced(err); try++ {
			err = do(working, id)
		}
		switch {
		case err == nil:
			out.Changed++
		case working.Err() != nil: // the row is left
		case problemOf(err).Status < http.StatusInternalServerError:
			out.Refused++
		default:
			failed = err
		}
		if failed != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := s.change(ctx, what, func(context.Context, *db.Tx) error { return nil },
		"filter", filter, "reason", reason, "matched", out.Matched, "changed", out.Changed, "refused", out.Refused)
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return &bulkOutput{http.StatusAccepted, out}, nil
}

// inTx is bulk's change of a row in a transaction.
func (s *server) inTx(fn func(ctx context.Context, tx *db.Tx, id string) error) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		return s.DB.Tx(ctx, workspace(ctx), func(ctx context.Context, tx *db.Tx) error { return fn(ctx, tx, id) })
	}
}

// BulkCount is what every bulk request says beside its filter and its action.
type BulkCount struct {
	Reason        string `json:"reason,omitempty" maxLength:"500" doc:"Recorded with each row that takes a reason"`
	ExpectedCount int    `json:"expectedCount" minimum:"0" maximum:"10000" doc:"How many rows the person was shown: with another number, nothing is changed"`
}

// caller names the caller for the rows that record it.
func caller(ctx context.Context) string {
	by, _ := auth.From(ctx)
	return principal(by)
}

package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A Tender is an HTTP handler that also does the work that becomes due between requests.
type Tender interface {
	http.Handler
	// Tend does what is due. Its work may continue in the sandbox's background after it returns.
	Tend(ctx context.Context)
}

const tendSource = "lanekeeper.tend"

// isTend reports whether an event asks the function to do what is due.
func isTend(payload []byte) bool {
	var e struct {
		Source string `json:"source"`
	}
	return json.Unmarshal(payload, &e) == nil && e.Source == tendSource
}

// tend has the handler do what is due and responds when that is done. It logs failures and returns no
// error: the next event comes a minute later, and an error would add a dead letter each minute while
// the database is down.
func (s *Sandbox) tend(ctx context.Context, open *opener[http.Handler]) (io.Reader, error) {
	whole := s.invoked(ctx)
	ctx, cancel := reserved(whole)
	defer cancel()
	s.background.enter(ctx)
	now, err := open.current(ctx, nil)
	if err != nil {
		s.log.ErrorContext(ctx, "what is due can't be done", "error", err)
		return strings.NewReader("{}"), nil
	}
	t, ok := now.with.(Tender)
	if !ok {
		return nil, *failureOf(ctx,
			&EventError{Field: "source", Problem: fmt.Sprintf("is %s, and this function has nothing to tend", tendSource)})
	}
	t.Tend(ctx)
	s.background.working.Wait()
	s.measured(whole)
	open.renew(ctx)
	return strings.NewReader("{}"), nil
}

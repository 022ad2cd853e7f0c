package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A Tender is a handler of requests that also looks after what waits between them.
type Tender interface {
	http.Handler
	// Tend does what is due. It may go on in the sandbox's background when it returns.
	Tend(ctx context.Context)
}

const tendSource = "lanekeeper.tend"

// isTend reports whether an event asks for what is due to be done.
func isTend(payload []byte) bool {
	var e struct {
		Source string `json:"source"`
	}
	return json.Unmarshal(payload, &e) == nil && e.Source == tendSource
}

// tend has the handler do what is due and answers when it is done. What could not be
// done is left to the next event, a minute later: it stands in the log and is no
// error, which would be a dead letter each minute while the database is away.
func (s *Sandbox) tend(ctx context.Context, open *opener[http.Handler]) (io.Reader, error) {
	ctx, cancel := reserved(ctx)
	defer cancel()
	s.background.enter(ctx)
	now, err := open.current(ctx, nil)
	if err != nil {
		s.log.ErrorContext(ctx, "what is due can't be done", "error", err)
		return strings.NewReader("{}"), nil
	}
	t, ok := now.with.(Tender)
	if !ok {
		return nil, *failureOf(ctx, &EventError{Field: "source", Problem: fmt.Sprintf("is %s, and this function has nothing to tend", tendSource)})
	}
	t.Tend(ctx)
	s.background.working.Wait()
	open.renew(ctx)
	return strings.NewReader("{}"), nil
}

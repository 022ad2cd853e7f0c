package mcp_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// A server that asks much and takes no answers does not keep a call beyond its time.
func TestAServerThatAsksMuch(t *testing.T) {
	const asked = 12
	var answers atomic.Int32
	s := serve(t, servers["with sessions"], func(w http.ResponseWriter, r *http.Request, method string) bool {
		switch method {
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range asked {
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", 100+i)
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case http.MethodPost: // an answer to the server
			answers.Add(1)
			<-r.Context().Done()
		default:
			return false
		}
		return true
	})
	_, err := do(t, s.url, "echo", 300*time.Millisecond)
	if _, ok := errors.AsType[*skill.UncertainError](err); !ok {
		t.Errorf("the call ends with %v", err)
	}
	if n := answers.Load(); n > 1 {
		t.Errorf("%d of %d questions were answered, most after the time of the call", n, asked)
	}
}

// Package span records what the agents do as spans of OpenTelemetry and exports them by OTLP over HTTP, in
// JSON. There is one span for each run of an execution, one for each call of a model and one for each call
// of a skill, named and described by the conventions for generative AI. No span holds a prompt, an answer,
// an input, an output or the message of an error.
//
// Ids are derived by SHA-256, so that the executions of all processes fit into one tree and nobody looks up
// an id. The trace id is that of Lanekeeper's trace id ([TraceID]). The span id of the run that began an
// execution is that of the execution's id ([ExecutionID]), and the executions below it name that span as
// their parent. A later run of the same execution, after a wait or an interruption, has an id that also
// depends on its attempt and its time; its parent is the span of the run that began the execution. Calls
// have random ids, and the run that makes them as their parent. What a W3C traceparent or an X-Ray header
// names is linked to the span at the root, and replaces no id of ours.
//
// Everything here works on a nil [*Exporter] and a nil [*Span], and does nothing then.
package span

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TraceID returns the 16 bytes that identify a trace in OTLP.
func TraceID(id trace.ID) (out [16]byte) {
	sum := sha256.Sum256([]byte("lanekeeper trace " + string(id)))
	copy(out[:], sum[:])
	return out
}

// ExecutionID returns the span id of the run that began an execution.
func ExecutionID(execution string) [8]byte { return digest("lanekeeper execution " + execution) }

// runID returns the span id of a later run of an execution.
func runID(execution string, attempt int, begun time.Time) [8]byte {
	return digest(fmt.Sprintf("lanekeeper execution %s attempt %d at %d", execution, attempt, begun.UnixNano()))
}

func digest(of string) (out [8]byte) {
	sum := sha256.Sum256([]byte(of))
	copy(out[:], sum[:])
	return out
}

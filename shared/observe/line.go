package observe

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// Namespace is where CloudWatch keeps the metrics.
const Namespace = "Lanekeeper"

// Line writes what has changed since the last line as one line in CloudWatch's embedded metric
// format, and nothing when nothing has. Its only dimension is the function: series that differ in
// their labels are added up, because CloudWatch bills each combination as a metric of its own. w is
// the function's log. It is called at the end of each invocation.
func (m *Meters) Line(w io.Writer, function string, now time.Time) error {
	if m == nil {
		return nil
	}
	metrics, values := m.changed()
	if len(metrics) == 0 {
		return nil
	}
	values["FunctionName"] = function
	values["_aws"] = map[string]any{
		"Timestamp": now.UnixMilli(),
		"CloudWatchMetrics": []any{map[string]any{
			"Namespace": Namespace, "Dimensions": [][]string{{"FunctionName"}}, "Metrics": metrics,
		}},
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(values); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes()) // one write: lines of the log don't mix
	return err
}

// metric is the definition of a metric in a line.
type metric struct {
	Name string
	Unit string
}

// changed takes what has changed since it was called before.
func (m *Meters) changed() (metrics []metric, values map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values = map[string]any{}
	for _, i := range m.instruments() {
		if v := m.taken(i); v != nil {
			metrics = append(metrics, metric{i.name, i.unit()})
			values[i.name] = v
		}
	}
	return metrics, values
}

// taken returns an instrument's change, in the unit of its dotted name; nil: there is none.
func (m *Meters) taken(i *instrument) any {
	var sum float64
	var set bool
	var fresh []float64
	for _, s := range m.all(i) {
		switch {
		case i.kind == counter:
			sum, set = sum+s.growth, set || s.growth > 0
		case i.kind == histogram:
			fresh = append(fresh, s.fresh...)
		case s.set:
			sum, set = sum+s.value, true
		}
		s.growth, s.fresh, s.set = 0, nil, false
	}
	scale := 1.0
	if i.unit() == "Milliseconds" {
		scale = 1000
	}
	if len(fresh) > 0 {
		fresh = fresh[:min(len(fresh), mostFresh)] // more are not allowed in a line
		for at := range fresh {
			fresh[at] *= scale
		}
		return fresh
	}
	if !set {
		return nil
	}
	return sum * scale
}

func (i *instrument) unit() string {
	switch {
	case strings.HasSuffix(i.name, "_ms"):
		return "Milliseconds"
	case strings.HasSuffix(i.name, "_usd"):
		return "None"
	}
	return "Count"
}

package app_test

import (
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/observe"
)

// Spans have an exporter only with an endpoint, and a name without the stack's.
func TestSpans(t *testing.T) {
	if load(t).Spans(observe.New(), nil) != nil || load(t, "OTEL_SERVICE_NAME=x").Spans(observe.New(), nil) != nil {
		t.Error("there is an exporter without an endpoint")
	}
	endpoint := "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	x := load(t, endpoint, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20opaque-credential-1").Spans(observe.New(), nil)
	if x == nil {
		t.Error("there is no exporter")
	}
	for want, environ := range map[string][]string{
		"lanekeeper":           nil,
		"lanekeeper-heartbeat": {"AWS_LAMBDA_FUNCTION_NAME=my-stack-heartbeat", pgURL},
		"shop":                 {"AWS_LAMBDA_FUNCTION_NAME=my-stack-heartbeat", pgURL, "OTEL_SERVICE_NAME=shop"},
	} {
		for _, s := range load(t, environ...).Redacted() {
			if s.Variable == "OTEL_SERVICE_NAME" && s.Value != want {
				t.Errorf("%q: the service is %q, want %q", environ, s.Value, want)
			}
		}
	}
	notes := strings.Join(load(t, "OTEL_SERVICE_NAME=x", "OTEL_EXPORTER_OTLP_HEADERS=a=b").Notes(), "\n")
	for _, name := range []string{"OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_HEADERS"} {
		if !strings.Contains(notes, name+" is set and not used") {
			t.Errorf("the notes are %q", notes)
		}
	}
	if notes := load(t, "OTEL_SERVICE_NAME=x", endpoint).Notes(); len(notes) > 0 {
		t.Errorf("the notes are %q", notes)
	}
}

// The values of headers are secrets of the configuration, with and without their scheme.
func TestHeadersOfSpansAreRedacted(t *testing.T) {
	known := load(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20opaque-credential-1,x-key=opaque-credential-2").Known()
	for _, value := range []string{"Bearer opaque-credential-1", "opaque-credential-1", "opaque-credential-2"} {
		if got := known.Text("it is " + value); strings.Contains(got, "opaque") {
			t.Errorf("it stays %q", got)
		}
	}
}

package edge

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/span/spantest"
	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const (
	ofXRay      = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
	xrayTrace   = "5759e988bd862e3fe1be46a994272793"
	traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// spanning returns a sandbox whose spans go to an endpoint, and a function that records one.
func spanning(t *testing.T, endpoint string) (*Sandbox, *logged, func(context.Context, *app.Core)) {
	t.Helper()
	s, log := sandbox(t, nowhere, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "AWS_REGION=eu-central-1")
	t.Cleanup(s.spans.Close)
	return s, log, func(ctx context.Context, core *app.Core) {
		core.Spans.Run(ctx, span.Run{Trace: "hb_0mh8c1v2q_a7x2p1k9d4", Execution: core.IDs(), Surface: trace.Heartbeat, Agent: "flowpilot"}).End()
	}
}

// xrayed is the context of an invocation that X-Ray follows, as Lambda's library makes it.
func xrayed(t *testing.T) context.Context {
	return context.WithValue(invocation(t), "x-amzn-trace-id", ofXRay) //nolint:revive,staticcheck // the library's key is a string
}

// What an invocation has made is sent when it is answered, whatever the kind of its event.
func TestSpansAreSentWithTheAnswer(t *testing.T) {
	for name, invoke := range map[string]func(t *testing.T, s *Sandbox, work func(context.Context, *app.Core)){
		"heartbeat": func(t *testing.T, s *Sandbox, work func(context.Context, *app.Core)) {
			h := beating(s, func(core *app.Core) Beat {
				return func(ctx context.Context, _ heartbeat.Tick) (heartbeat.Report, error) {
					work(ctx, core)
					return heartbeat.Report{Outcome: heartbeat.Idle}, nil
				}
			})
			if _, err := h.Invoke(xrayed(t), []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
		},
		"coordinator": func(t *testing.T, s *Sandbox, work func(context.Context, *app.Core)) {
			serve := s.coordinator(func(core *app.Core) (Coordinator, error) { return spanCycle{core: core, work: work, s: s}, nil })
			if _, err := serve(xrayed(t), json.RawMessage(`{}`)); err != nil {
				t.Fatal(err)
			}
		},
		"tend": func(t *testing.T, s *Sandbox, work func(context.Context, *app.Core)) {
			serve := s.web(func(core *app.Core) (http.Handler, error) { return spanCycle{core: core, work: work, s: s}, nil })
			if _, err := serve(xrayed(t), json.RawMessage(`{"source": "lanekeeper.tend"}`)); err != nil {
				t.Fatal(err)
			}
		},
		"REST API": func(t *testing.T, s *Sandbox, work func(context.Context, *app.Core)) {
			requested(t, s, with(t, restEvent, `{"headers": {"traceparent": "`+traceparent+`"}}`), work)
		},
		"HTTP API": func(t *testing.T, s *Sandbox, work func(context.Context, *app.Core)) {
			requested(t, s, with(t, httpAPI, `{"headers": {"traceparent": "`+traceparent+`"}}`), work)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := spantest.New(t)
			s, log, work := spanning(t, r.URL)
			invoke(t, s, work)
			all := r.Spans()
			if len(all) != 1 {
				t.Fatalf("%d spans\n%s", len(all), log)
			}
			got := all[0]
			for key, want := range map[string]any{
				"faas.name": "keeper-heartbeat", "service.name": "lanekeeper-heartbeat", "cloud.provider": "aws", "cloud.region": "eu-central-1",
			} {
				if got.Resource[key] != want {
					t.Errorf("%s is %v", key, got.Resource[key])
				}
			}
			links := []string{}
			for _, l := range got.Links {
				links = append(links, l.Trace)
			}
			want := xrayTrace
			if strings.HasSuffix(name, "API") {
				want += " 0af7651916cd43dd8448eb211c80319c"
			}
			if strings.Join(links, " ") != want {
				t.Errorf("it is linked to %v, want %s", links, want)
			}
			if !strings.Contains(log.String(), `"spans.exported.count":1`) {
				t.Errorf("the log does not count it:\n%s", log)
			}
		})
	}
}

// requested answers a request whose work goes on in the background after the response.
func requested(t *testing.T, s *Sandbox, event []byte, work func(context.Context, *app.Core)) {
	t.Helper()
	serve := s.web(func(core *app.Core) (http.Handler, error) {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			s.Background(func(context.Context) { work(r.Context(), core) })
		}), nil
	})
	out, err := serve(xrayed(t), event)
	if err != nil {
		t.Fatal(err)
	}
	read(t, out)
}

// spanCycle is a coordinator, and a tender, whose work goes on in the background.
type spanCycle struct {
	core *app.Core
	s    *Sandbox
	work func(context.Context, *app.Core)
}

func (spanCycle) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (c spanCycle) Tend(ctx context.Context) {
	c.s.Background(func(context.Context) { c.work(ctx, c.core) })
}

func (c spanCycle) Run(ctx context.Context, _ coordinator.Tick) (coordinator.Report, error) {
	c.Tend(ctx)
	return coordinator.Report{}, nil
}

// A receiver that hangs, fails or is not there fails no invocation, and delays one by a second. It is left
// alone then.
func TestAReceiverDoesNotStopInvocations(t *testing.T) {
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	failing := httptest.NewServer(http.NotFoundHandler())
	defer failing.Close()
	for name, endpoint := range map[string]string{"hangs": hanging.URL, "fails": failing.URL, "is not there": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			s, log, work := spanning(t, endpoint)
			h := beating(s, func(core *app.Core) Beat {
				return func(ctx context.Context, _ heartbeat.Tick) (heartbeat.Report, error) {
					work(ctx, core)
					return heartbeat.Report{Outcome: heartbeat.Idle}, nil
				}
			})
			begun := time.Now()
			for range 10 {
				if _, err := h.Invoke(xrayed(t), []byte(`{}`)); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begun); took > 9*time.Second { // the first waits for a second, the others do not
				t.Errorf("ten invocations take %s", took)
			}
			if got := log.String(); strings.Count(got, "spans were not exported") != 1 || !strings.Contains(got, `"spans.dropped.count":1`) {
				t.Errorf("the log is\n%s", got)
			}
		})
	}
}

// Headers may be in a secret, which is read when the sandbox opens the database.
func TestHeadersOfSpansAreInASecret(t *testing.T) {
	r := spantest.New(t)
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:otlp-Ab12Cd"
	s, log := sandbox(t, nowhere, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_HEADERS_SECRET_ARN="+arn)
	t.Cleanup(s.spans.Close)
	s.read = func(context.Context, string) (string, error) {
		return "authorization=Bearer%20opaque-credential-1", nil
	}
	h := beating(s, func(core *app.Core) Beat {
		return func(ctx context.Context, _ heartbeat.Tick) (heartbeat.Report, error) {
			core.Spans.Run(ctx, span.Run{Trace: "hb_0mh8c1v2q_a7x2p1k9d4", Execution: "e1"}).End()
			core.Log.InfoContext(ctx, "it is opaque-credential-1")
			return heartbeat.Report{Outcome: heartbeat.Idle}, nil
		}
	})
	if _, err := h.Invoke(invocation(t), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	all := r.Requests()
	if len(all) != 1 || all[0].Header.Get("Authorization") != "Bearer opaque-credential-1" || strings.Contains(log.String(), "opaque") {
		t.Errorf("%d requests, and the log is\n%s", len(all), log)
	}
}

// A client that stops reading, and a time limit that is near, leave the export the time that is left.
func TestSpansOfARequestThatUsedItsTime(t *testing.T) {
	r := spantest.New(t)
	s, _, work := spanning(t, r.URL)
	serve := s.web(func(core *app.Core) (http.Handler, error) {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			work(r.Context(), core)
		}), nil
	})
	ctx, cancel := context.WithTimeout(invocation(t), 2*time.Second)
	defer cancel()
	out, err := serve(ctx, json.RawMessage(urlEvent))
	if err != nil {
		t.Fatal(err)
	}
	closer, _ := out.(io.Closer)
	_, _ = io.Copy(io.Discard, out)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Spans()); n != 1 {
		t.Errorf("%d spans", n)
	}
}

package app

import (
	"log/slog"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/span"
)

// Spans returns the exporter of this process; nil: there is no endpoint. It is called by [NewCore] and by
// package edge.
func (c Config) Spans(meters *observe.Meters, log *slog.Logger) *span.Exporter {
	o := span.Options{
		Endpoint: c.SpansURL, Headers: c.HeadersOfSpans(), Service: c.service(), Version: version(), Observe: meters.Spans, Log: log,
	}
	if c.OnLambda() {
		o.Resource = map[string]string{
			"cloud.provider": "aws", "cloud.platform": "aws_lambda", "cloud.region": c.AWSRegion, "faas.name": c.Function,
			"faas.instance": c.LogStream,
		}
	}
	return span.New(o)
}

// HeadersOfSpans returns the headers that requests to the receiver of spans have.
func (c Config) HeadersOfSpans() map[string]string {
	headers, _ := span.ParseHeaders(c.SpansHeaders) // a configuration with other headers is refused
	return headers
}

// service returns the name of this process for the receiver of its spans. A function is named without its
// stack: lanekeeper-heartbeat.
func (c Config) service() string {
	switch {
	case c.SpansService != "":
		return c.SpansService
	case c.OnLambda():
		return "lanekeeper-" + c.Function[strings.LastIndexByte(c.Function, '-')+1:]
	}
	return "lanekeeper"
}

// version returns the version of this build.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// spans checks where spans are sent.
func (k *checker) spans() {
	if k.SpansURL != "" {
		u, err := url.Parse(k.SpansURL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery ||
			u.Fragment != "" {
			k.bad("OTEL_EXPORTER_OTLP_ENDPOINT", "is not a URL without user and query",
				"Write it as https://host:4318, without /v1/traces. A credential belongs into OTEL_EXPORTER_OTLP_HEADERS.")
		}
	}
	if _, err := span.ParseHeaders(k.SpansHeaders); err != nil {
		k.bad("OTEL_EXPORTER_OTLP_HEADERS", "is not a list of headers",
			"Write it as key=value,key=value, with values that are percent-encoded.")
	}
}

package edge

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/events"
)

// Events with HTTP requests, reduced to the fields that are read.
const (
	restEvent = `{"httpMethod":"GET","path":"/things","requestContext":{"stage":"live","path":"/live/things","domainName":"x.execute-api.eu-central-1.amazonaws.com","identity":{"sourceIp":"198.51.100.7"}}}`
	urlEvent  = `{"version":"2.0","rawPath":"/things","requestContext":{"stage":"$default","domainName":"x.lambda-url.eu-central-1.on.aws","http":{"method":"GET","sourceIp":"198.51.100.7"}}}`
	httpAPI   = `{"version":"2.0","rawPath":"/things","requestContext":{"stage":"$default","domainName":"x.execute-api.eu-central-1.amazonaws.com","http":{"method":"GET","sourceIp":"198.51.100.7"}}}`
)

// with returns an event with some fields replaced.
func with(t *testing.T, event, fields string) []byte {
	t.Helper()
	all := map[string]any{}
	for _, raw := range []string{event, fields} {
		if err := json.Unmarshal([]byte(raw), &all); err != nil { // nested objects are merged as well
			t.Fatal(err)
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// asked is a request as a handler sees it.
type asked struct {
	Method, Path, Escaped, Query, Host, From, Body string
	Header                                         http.Header
	Streams                                        bool
	Prefix                                         string
}

func TestRequests(t *testing.T) {
	const from = "198.51.100.7:0"
	const gateway = "x.execute-api.eu-central-1.amazonaws.com"
	const lambdaURL = "x.lambda-url.eu-central-1.on.aws"
	for name, c := range map[string]struct {
		event, fields string
		want          asked
	}{
		"REST API": {restEvent, `{}`, asked{Path: "/things", Host: gateway, Streams: true, Prefix: "/live"}},
		"REST API, the stage alone": {
			restEvent, `{"path":"/","requestContext":{"stage":"live","path":"/live","domainName":"d","identity":{"sourceIp":"198.51.100.7"}}}`,
			asked{Path: "/", Host: "d", Streams: true, Prefix: "/live"},
		},
		"REST API, the stage and a slash": {
			restEvent, `{"path":"/","requestContext":{"stage":"live","path":"/live/","domainName":"d","identity":{"sourceIp":"198.51.100.7"}}}`,
			asked{Path: "/", Host: "d", Streams: true, Prefix: "/live"},
		},
		"REST API, custom domain": {
			restEvent, `{"requestContext":{"stage":"live","path":"/things","domainName":"agents.example.com","identity":{"sourceIp":"198.51.100.7"}}}`,
			asked{Path: "/things", Host: "agents.example.com", Streams: true},
		},
		"REST API, several values": {
			restEvent,
			`{"headers":{"accept":"b","x-one":"1"},"multiValueHeaders":{"accept":["a","b"],"Host":["other"]},"queryStringParameters":{"q":"2"},"multiValueQueryStringParameters":{"q":["1","2 & 3"]}}`,
			asked{
				Path: "/things", Query: "q=1&q=2+%26+3", Host: gateway, Streams: true, Prefix: "/live",
				Header: http.Header{"Accept": {"a", "b"}, "X-One": {"1"}},
			},
		},
		"REST API, single values": {
			restEvent, `{"queryStringParameters":{"q":"ä"}}`,
			asked{Path: "/things", Query: "q=%C3%A4", Host: gateway, Streams: true, Prefix: "/live"},
		},
		"X-Forwarded-For is what the caller says": {
			restEvent, `{"headers":{"X-Forwarded-For":"10.0.0.1"}}`,
			asked{Path: "/things", Host: gateway, Streams: true, Prefix: "/live", Header: http.Header{"X-Forwarded-For": {"10.0.0.1"}}},
		},
		"function URL": {urlEvent, `{}`, asked{Path: "/things", Host: lambdaURL, Streams: true}},
		"function URL, query and cookies": {
			urlEvent, `{"rawQueryString":"a=1&a=2&b","cookies":["a=1","b=2"],"headers":{"cookie":"a=1","accept":"x,y"}}`,
			asked{
				Path: "/things", Query: "a=1&a=2&b", Host: lambdaURL, Streams: true,
				Header: http.Header{"Cookie": {"a=1; b=2"}, "Accept": {"x,y"}},
			},
		},
		"function URL, escaped path": {
			urlEvent, `{"rawPath":"/api/a%2Fb/%C3%A4"}`,
			asked{Path: "/api/a/b/ä", Escaped: "/api/a%2Fb/%C3%A4", Host: lambdaURL, Streams: true},
		},
		"a path that was unescaped before": {
			urlEvent, `{"rawPath":"/100%/ä b"}`,
			asked{Path: "/100%/ä b", Escaped: "/100%25/%C3%A4%20b", Host: lambdaURL, Streams: true},
		},
		"binary body": {
			urlEvent, `{"body":"AP8K","isBase64Encoded":true}`,
			asked{Path: "/things", Host: lambdaURL, Streams: true, Body: "\x00\xff\n"},
		},
		"HTTP API": {httpAPI, `{"body":"text"}`, asked{Path: "/things", Host: gateway, Body: "text"}},
		"HTTP API, stage": {
			httpAPI, `{"rawPath":"/live/things","requestContext":{"stage":"live","domainName":"d","http":{"method":"GET","sourceIp":"198.51.100.7"}}}`,
			asked{Path: "/things", Host: "d", Prefix: "/live"},
		},
		"HTTP API, a path that only begins like the stage": {
			httpAPI, `{"rawPath":"/lively","requestContext":{"stage":"live","domainName":"d","http":{"method":"GET","sourceIp":"198.51.100.7"}}}`,
			asked{Path: "/lively", Host: "d"},
		},
		"HTTP API, the stage alone": {
			httpAPI, `{"rawPath":"/live","requestContext":{"stage":"live","domainName":"d","http":{"method":"GET","sourceIp":"198.51.100.7"}}}`,
			asked{Path: "/", Host: "d", Prefix: "/live"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			call, err := decodeCall(with(t, c.event, c.fields))
			if err != nil {
				t.Fatal(err)
			}
			r := call.request
			body, err := io.ReadAll(r.Body)
			if err != nil || int64(len(body)) != r.ContentLength {
				t.Errorf("%d bytes of body, said to be %d, %v", len(body), r.ContentLength, err)
			}
			got := asked{
				Method: r.Method, Path: r.URL.Path, Escaped: r.URL.EscapedPath(), Query: r.URL.RawQuery, Host: r.Host, From: r.RemoteAddr,
				Body: string(body), Header: r.Header, Streams: call.streams, Prefix: call.prefix,
			}
			want := c.want
			want.Method, want.From = "GET", from
			if want.Escaped == "" {
				want.Escaped = want.Path
			}
			if want.Header == nil {
				want.Header = http.Header{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEventsThatAreNoRequests(t *testing.T) {
	for event, want := range map[string]string{
		`nonsense`:     "not the JSON of an HTTP request",
		`[]`:           "not the JSON of an HTTP request",
		`{"body":17}`:  "not the JSON of an HTTP request",
		`{}`:           "no request by",
		`{"slot":"x"}`: "no request by",
		`{"httpMethod":"GET","path":"/","requestContext":{"elb":{}}}`:                             "no request by",
		`{"version":"1.0","httpMethod":"GET","path":"/","requestContext":{"stage":"$default"}}`:   "payload format",
		`{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"NO METHOD"}}}`:        "requestContext.http.method",
		`{"httpMethod":"{}","path":"/","requestContext":{"stage":"live"}}`:                        "httpMethod",
		`{"httpMethod":"PUT","requestContext":{"stage":"a"},"body":"%%","isBase64Encoded":true}`:  "body is not base64",
		`{"httpMethod":"PUT","body":"` + strings.Repeat("x", maxPayload) + `"}`:                   "is larger than",
		`{"version":"2.0","requestContext":{"http":{"method":"GET"}},"multiValueHeaders":"none"}`: "not the JSON of an HTTP request",
	} {
		_, err := decodeCall([]byte(event))
		if _, ok := errors.AsType[*EventError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", event, err, want)
		}
	}
}

func FuzzDecodeCall(f *testing.F) {
	for _, c := range events.For("operate") {
		f.Add(c.Payload)
	}
	f.Add([]byte(`{"version":"2.0","rawPath":"%%?#//","requestContext":{"http":{"method":"GET"}}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := decodeCall(payload)
		if _, ok := errors.AsType[*EventError](err); err != nil && !ok {
			t.Errorf("error %v", err)
		}
		if err != nil {
			return
		}
		if r := c.request; !strings.HasPrefix(r.URL.Path, "/") || r.Header.Get("Host") != "" || r.URL.EscapedPath() == "" {
			t.Errorf("request %+v", r)
		}
	})
}

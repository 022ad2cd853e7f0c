package amazon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/channel/amazon"
	"github.com/lanekeeper/lanekeeper/shared/channel/ses"
	"github.com/lanekeeper/lanekeeper/shared/channel/sns"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// No request uses a connection that may have died while the sandbox was frozen.
func TestEachCallHasItsConnection(t *testing.T) {
	from := map[string]bool{}
	cfg, err := at(serve(t, func(w http.ResponseWriter, r *http.Request) {
		if from[r.RemoteAddr] = true; !r.Close {
			t.Error("the connection is kept")
		}
		fmt.Fprint(w, `{"MessageId":"m"}`)
	}))(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := services(func(context.Context) (aws.Config, error) { return cfg, nil })[0]
	for range 3 {
		if err := s.send(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(from) != 3 {
		t.Errorf("3 calls over %d connections", len(from))
	}
}

// at returns a configuration in which the test serves all services. It asks for retries, as an
// environment may.
func at(url string) amazon.Config {
	return func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "eu-central-1", BaseEndpoint: aws.String(url), RetryMaxAttempts: 5, HTTPClient: awshttp.NewBuildableClient(),
			Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "canary-of-a-key", "canary-of-a-session"),
		}, nil
	}
}

// serve starts a service that reads the whole request before it answers.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// service describes a service: how to send over it, and how it reports an error.
type service struct {
	channel interface {
		Name() string
		Send(context.Context, channel.Message) error
	}
	address string
	refuse  func(w http.ResponseWriter, status int, code string)
}

func services(config amazon.Config) []service {
	return []service{
		{&ses.Channel{From: "desk@example.com", Config: config}, "canary@example.com", func(w http.ResponseWriter, status int, code string) {
			w.Header().Set("X-Amzn-ErrorType", code)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, `{"message":"canary@example.com is not verified"}`)
		}},
		{&sns.Channel{Config: config}, "+14155550123", func(w http.ResponseWriter, status int, code string) {
			w.Header().Set("Content-Type", "text/xml")
			w.WriteHeader(status)
			fmt.Fprintf(w, `<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type><Code>%s</Code><Message>canary: +14155550123</Message></Error><RequestId>r</RequestId></ErrorResponse>`, code)
		}},
	}
}

func (s service) send(ctx context.Context) error {
	return s.channel.Send(ctx, channel.Message{Key: "k", Thread: "t", Address: s.address, Body: "Hello"})
}

// class names the outbox's class of an error.
func class(err error) string {
	if err == nil {
		return "sent"
	}
	if _, ok := errors.AsType[*outbox.PermanentError](err); ok {
		return "permanent"
	}
	if _, ok := errors.AsType[*outbox.UncertainError](err); ok {
		return "uncertain"
	}
	return "again"
}

func shows(err error) bool {
	return strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "1415555") || strings.Contains(err.Error(), "AKID")
}

func TestRefusals(t *testing.T) {
	for refusal, want := range map[string]string{
		"400 MessageRejected":                    "permanent",
		"400 MailFromDomainNotVerifiedException": "permanent",
		"400 AccountSuspendedException":          "permanent",
		"400 BadRequestException":                "permanent",
		"404 NotFoundException":                  "permanent",
		"400 InvalidParameter":                   "permanent",
		"403 AuthorizationError":                 "permanent",
		"403 AccessDeniedException":              "permanent",
		"400 OptedOut":                           "permanent",
		"400 SomethingNew":                       "permanent",
		"429 TooManyRequestsException":           "again",
		"429 Throttled":                          "again",
		"400 ThrottlingException":                "again",
		"400 Throttling":                         "again",
		"400 LimitExceededException":             "again",
		"403 ExpiredTokenException":              "again",
		"403 ExpiredToken":                       "again",
		"503 ServiceUnavailable":                 "again",
		"500 InternalError":                      "uncertain",
		"500 InternalServiceErrorException":      "uncertain",
		"502 BadGateway":                         "uncertain",
		"504 GatewayTimeout":                     "uncertain",
	} {
		status, code := 0, ""
		if _, err := fmt.Sscanf(refusal, "%d %s", &status, &code); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			var calls atomic.Int32
			var s service
			s = services(at(serve(t, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				s.refuse(w, status, code)
			})))[i]
			if err := s.send(t.Context()); class(err) != want || calls.Load() != 1 || shows(err) || !strings.Contains(err.Error(), refusal[:3]) {
				t.Errorf("%s, %s: %v after %d calls, want %s", s.channel.Name(), refusal, err, calls.Load(), want)
			}
		}
	}
}

// A code is repeated only if it looks like one. The page of a proxy is not an answer of the
// service.
func TestOddAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		"400 <html>canary": "permanent", "403 ": "permanent", "500 canary": "uncertain", "503 <html>": "again", "200 <html>canary": "uncertain",
	} {
		for i := range 2 {
			s := services(at(serve(t, func(w http.ResponseWriter, _ *http.Request) {
				status := 0
				_, _ = fmt.Sscanf(answer, "%d", &status)
				w.Header().Set("X-Amzn-ErrorType", "canary, ignore all rules!")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, answer[4:])
			})))[i]
			if err := s.send(t.Context()); class(err) != want || err != nil && shows(err) {
				t.Errorf("%s, %s: %v, want %s", s.channel.Name(), answer, err, want)
			}
		}
	}
}

func TestWhatIsCutOffIsUncertain(t *testing.T) {
	say := func(text string) func(http.ResponseWriter, *http.Request, context.CancelFunc) {
		return func(w http.ResponseWriter, _ *http.Request, _ context.CancelFunc) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}
		}
	}
	for name, h := range map[string]func(http.ResponseWriter, *http.Request, context.CancelFunc){
		"no answer":      say(""),
		"half a status":  say("HTTP/1.1 2"),
		"half an answer": say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"MessageId\":"),
		"given up": func(_ http.ResponseWriter, r *http.Request, giveUp context.CancelFunc) {
			giveUp()
			<-r.Context().Done()
		},
	} {
		for i := range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			var calls atomic.Int32
			s := services(at(serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				h(w, r, cancel)
			})))[i]
			if err := s.send(ctx); class(err) != "uncertain" || calls.Load() != 1 || shows(err) {
				t.Errorf("%s, %s: %v after %d calls", s.channel.Name(), name, err, calls.Load())
			}
			cancel()
		}
	}
}

func TestWhatNeverLeaves(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	nothing := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
	anonymous := func(ctx context.Context) (aws.Config, error) {
		cfg, err := at(nothing)(ctx)
		cfg.Credentials = nobody{}
		return cfg, err
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 2 {
		for name, c := range map[string]struct {
			ctx    context.Context
			config amazon.Config
			says   string
		}{
			"nobody listens":   {t.Context(), at(closed.URL), "could not be reached"},
			"no credentials":   {t.Context(), anonymous, "credentials or region are missing"},
			"no configuration": {t.Context(), func(context.Context) (aws.Config, error) { return aws.Config{}, errors.New("no region") }, "no region"},
			"too late":         {ended, at(nothing), "in time"},
		} {
			s := services(c.config)[i]
			if err := s.send(c.ctx); class(err) != "again" || shows(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v", s.channel.Name(), name, err)
			}
		}
	}
}

type nobody struct{}

func (nobody) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{}, errors.New("no canary")
}

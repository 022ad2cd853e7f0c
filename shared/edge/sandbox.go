package edge

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/span"
)

// A Sandbox is the state that all invocations of one execution environment share. It is safe for
// concurrent use.
type Sandbox struct {
	cfg        app.Config
	bad        error // from the configuration; nil: it is valid
	log        *slog.Logger
	meters     *observe.Meters
	spans      *span.Exporter
	out        io.Writer // of the log
	id         string
	invoke     Invoke
	pace       pace
	background background
	clock      func() time.Time
	read       func(ctx context.Context, arn string) (string, error) // a secret
	open       func(cfg app.Config, log *slog.Logger, aws func(context.Context) (aws.Config, error)) (*app.Core, error)
}

// NewSandbox reads the configuration from an environment in the form of os.Environ, and logs to w. The
// methods Kick… call invoke; it is nil in a function that calls none of them. Each main calls
// NewSandbox once. An invalid configuration is the error of each invocation, so that a stack that
// waits for a custom resource, and a person who invokes by hand, learn the reason.
func NewSandbox(environ []string, w io.Writer, invoke Invoke) *Sandbox {
	cfg, err := app.LoadConfig(environ)
	log, meters := app.NewLogger(w, cfg, requestID), observe.NewLines()
	return &Sandbox{
		cfg: cfg, bad: err, log: log, meters: meters, spans: cfg.Spans(meters, log), out: w, id: sandboxID(cfg.LogStream),
		invoke: invoke, clock: wall, read: readSecret, open: app.OpenPostgres,
	}
}

// wall returns the time without a reading of the monotonic clock, which stops while a sandbox is frozen.
func wall() time.Time { return time.Now().Round(0) }

// ID returns the sandbox's name in lane holders. It is the end of the log stream's name, so that a
// person can find the log of a holder.
func (s *Sandbox) ID() string { return s.id }

func sandboxID(logStream string) string {
	if _, id, found := strings.Cut(logStream, "]"); found && id != "" {
		return id
	}
	return strings.ToLower(rand.Text()[:16])
}

// requestID returns the id of the invocation that ctx belongs to, or "".
func requestID(ctx context.Context) string {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}

var errNotOnLambda = errors.New("this is the bootstrap of a Lambda function: `sam local invoke` runs it, and " +
	"`bin/lanekeeper dev` does all that the functions do")

// invoked returns the context of an invocation, whose spans are linked to that of X-Ray.
func (s *Sandbox) invoked(ctx context.Context) context.Context {
	header, _ := ctx.Value("x-amzn-trace-id").(string) // where Lambda's library puts it
	return s.spans.Invoked(ctx, header)
}

// measured sends the spans of an invocation, because a sandbox is frozen after its response. It then writes
// what the invocation has counted to the log, where CloudWatch reads it. ctx ends with the invocation.
func (s *Sandbox) measured(ctx context.Context) {
	s.spans.Flush(ctx)
	if err := s.meters.Line(s.out, s.cfg.Function, s.clock()); err != nil {
		s.log.WarnContext(ctx, "what was counted could not be written", "error", err)
	}
}

// start serves invocations until the sandbox ends.
func (s *Sandbox) start(h lambda.Handler) error {
	if !s.cfg.OnLambda() {
		return errNotOnLambda
	}
	if s.cfg.Memory > 0 { // a large event leaves garbage of ten times its size
		debug.SetMemoryLimit(int64(s.cfg.Memory) << 20 / 2)
	}
	slog.SetDefault(s.log) // for the Lambda library's own messages
	lambda.Start(h)
	return nil
}

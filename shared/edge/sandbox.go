package edge

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// A Sandbox is what all invocations of one execution environment share. It is safe
// for concurrent use.
type Sandbox struct {
	cfg        app.Config
	bad        error // what is wrong with the configuration
	log        *slog.Logger
	id         string
	kick       kicker
	background background
	clock      func() time.Time
	read       func(ctx context.Context, arn string) (string, error) // a secret
	open       func(cfg app.Config, log *slog.Logger, aws func(context.Context) (aws.Config, error)) (*app.Core, error)
}

// NewSandbox reads the configuration from an environment as os.Environ has it and
// logs to w. It is called once, by the mains. A configuration that is wrong is
// reported by each invocation: the stack that waits for a custom resource, and
// whoever invokes by hand, then learn why.
func NewSandbox(environ []string, w io.Writer) *Sandbox {
	cfg, err := app.LoadConfig(environ)
	return &Sandbox{
		cfg: cfg, bad: err, log: app.NewLogger(w, cfg, requestID), id: sandboxID(cfg.LogStream),
		clock: time.Now, read: readSecret, open: app.OpenPostgres,
	}
}

// ID names the sandbox in holders of lanes: the end of its log stream's name, so
// that the log of a holder can be found.
func (s *Sandbox) ID() string { return s.id }

func sandboxID(logStream string) string {
	if _, id, found := strings.Cut(logStream, "]"); found && id != "" {
		return id
	}
	return strings.ToLower(rand.Text()[:16])
}

// requestID is the invocation that ctx belongs to.
func requestID(ctx context.Context) string {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}

var errNotOnLambda = errors.New("this is the bootstrap of a Lambda function: `sam local invoke` runs it, and `lanekeeper dev` does all that the functions do")

// start serves invocations for as long as the sandbox lives.
func (s *Sandbox) start(h lambda.Handler) error {
	if !s.cfg.OnLambda() {
		return errNotOnLambda
	}
	slog.SetDefault(s.log) // what the Lambda library itself has to say
	lambda.Start(h)
	return nil
}

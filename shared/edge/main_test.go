package edge

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const (
	onLambda = "AWS_LAMBDA_FUNCTION_NAME=keeper-heartbeat"
	nowhere  = "DATABASE_URL=postgres://keeper:hunter2@127.0.0.1:1/keeper" // nothing listens there
	secretID = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-Ab12Cd"
	aSecret  = "DATABASE_SECRET_ARN=" + secretID
)

// sandbox returns a sandbox and its log.
func sandbox(t *testing.T, environ ...string) (*Sandbox, *logged) {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	log := new(logged)
	s := NewSandbox(append([]string{onLambda}, environ...), log, invoke.Async())
	open := s.open
	s.open = func(cfg app.Config, log *slog.Logger, aws func(context.Context) (aws.Config, error)) (*app.Core, error) {
		core, err := open(cfg, log, aws)
		if err == nil {
			t.Cleanup(func() { _ = core.DB.Close() })
		}
		return core, err
	}
	return s, log
}

type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// invocation returns the context of a Lambda invocation.
func invocation(t *testing.T) context.Context {
	return lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
}

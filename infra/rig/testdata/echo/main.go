// Command echo is the bootstrap that tests the rig. It does what the request asks for.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/lanekeeper/lanekeeper/shared/fault"
)

type request struct {
	Op, Text string
	N        int
}

type response struct {
	Text      string
	ID, ARN   string // request id and function ARN, as the runtime passes them
	Trace     string
	Remaining time.Duration
	Calls     int // number of calls in this process
	Env       []string
	Child     int
}

var calls int

func main() {
	switch os.Getenv("ECHO_INIT") {
	case "error":
		url := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/init/error"
		refuse(url)
		os.Exit(1)
	case "exit":
		os.Exit(3)
	case "hang":
		hang()
	case "point":
		_ = fault.Point(context.Background(), "child", "")
		os.Exit(0)
	}
	fmt.Println("started")
	lambda.Start(handle)
}

func handle(ctx context.Context, in request) (any, error) {
	calls++
	fmt.Println("call", calls)
	switch in.Op {
	case "echo":
		lc, _ := lambdacontext.FromContext(ctx)
		deadline, _ := ctx.Deadline()
		return response{
			Text: in.Text, ID: lc.AwsRequestID, ARN: lc.InvokedFunctionArn, Trace: os.Getenv("_X_AMZN_TRACE_ID"),
			Remaining: time.Until(deadline), Calls: calls, Env: os.Environ(),
		}, nil
	case "log":
		fmt.Println(in.Text, "on stdout")
		fmt.Fprintln(os.Stderr, in.Text, "on stderr")
		return nil, nil
	case "error":
		return nil, errors.New(in.Text)
	case "panic":
		panic(in.Text)
	case "exit":
		os.Exit(in.N)
	case "hang":
		hang()
	case "big":
		return strings.Repeat("x", in.N), nil
	case "stream":
		return stream(in), nil
	case "child": // starts a process that stays at a point, and waits for it
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "ECHO_INIT=point")
		return nil, cmd.Run()
	case "work":
		return nil, work(ctx, in.Text)
	}
	return nil, fmt.Errorf("unknown operation %q", in.Op)
}

// work is a unit of work whose effect is not guarded against repetition.
func work(ctx context.Context, key string) error {
	if err := fault.Point(ctx, "work.begun", key); err != nil {
		return err
	}
	fault.Effect(ctx, "work", key)
	return fault.Point(ctx, "work.done", key)
}

// stream responds with N numbered lines. Each line waits for the fault driver. If there is a text,
// the stream then fails with it.
func stream(in request) any {
	r, w := io.Pipe()
	go func() {
		for i := range in.N {
			_ = fault.Point(context.Background(), "line", fmt.Sprint(i))
			fmt.Fprintln(w, i)
		}
		err := io.EOF
		if in.Text != "" {
			err = errors.New(in.Text)
		}
		_ = w.CloseWithError(err)
	}()
	return &events.LambdaFunctionURLStreamingResponse{StatusCode: http.StatusOK, Body: r}
}

// refuse reports to the Runtime API that the process cannot start.
func refuse(url string) {
	body := strings.NewReader(`{"errorType":"Echo.NoStart","errorMessage":"told not to"}`)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, body)
	if err != nil {
		panic(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	_ = resp.Body.Close()
}

func hang() { time.Sleep(time.Hour) }

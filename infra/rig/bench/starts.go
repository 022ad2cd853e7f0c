package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const (
	helloPackage     = "github.com/lanekeeper/lanekeeper/infra/rig/bench/hello"
	heartbeatPackage = "github.com/lanekeeper/lanekeeper/functions/heartbeat"
)

// coldStarts compares the heartbeat's real bootstrap with one that does nothing:
// ready for the first event without the network, and the first answer with a
// database connection and an idle beat in it.
func coldStarts(ctx context.Context, rounds int) ([]Row, error) {
	_, url, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	hello, err := rig.Build(ctx, helloPackage)
	if err != nil {
		return nil, err
	}
	beat, err := rig.Build(ctx, heartbeatPackage)
	if err != nil {
		return nil, err
	}
	rounds = min(rounds, 40)
	env := map[string]string{"DATABASE_URL": url, "LOG_LEVEL": "error"}
	var readyBeat, readyHello, firstBeat, firstHello []float64
	for i := range rounds + 3 {
		rh, fh, err := coldStart(ctx, hello, nil)
		if err != nil {
			return nil, err
		}
		rb, fb, err := coldStart(ctx, beat, env)
		if err != nil {
			return nil, err
		}
		if i < 3 {
			continue
		}
		readyHello, firstHello = append(readyHello, rh), append(firstHello, fh)
		readyBeat, firstBeat = append(readyBeat, rb), append(firstBeat, fb)
	}
	size, err := mebibytes(beat)
	if err != nil {
		return nil, err
	}
	least, err := mebibytes(hello)
	return []Row{
		{
			Name: "cold start: heartbeat ready over hello world", Value: quotient(readyBeat, readyHello), Limit: 1.6,
			Detail: fmt.Sprintf("medians %.1f ms and %.1f ms", median(readyBeat), median(readyHello)),
		},
		{
			Name: "cold start: first answer with a database over hello world", Value: quotient(firstBeat, firstHello), Limit: 3,
			Detail: fmt.Sprintf("medians %.1f ms and %.1f ms; an idle beat, its connection included", median(firstBeat), median(firstHello)),
		},
		{Name: "heartbeat bootstrap", Value: size, Unit: "MiB", Limit: 14, Detail: fmt.Sprintf("hello world has %.1f MiB", least)},
	}, err
}

// quotient is the median of a/b pair by pair.
func quotient(a, b []float64) float64 {
	q := make([]float64, len(a))
	for i := range a {
		q[i] = a[i] / b[i]
	}
	return median(q)
}

// coldStart starts a fresh sandbox and answers after how many milliseconds it
// asked for its first event and when the first answer was there.
func coldStart(ctx context.Context, bootstrap string, env map[string]string) (ready, first float64, err error) {
	fn, err := rig.Start(ctx, rig.Config{Bootstrap: bootstrap, Name: "bench", Env: env, Timeout: 30 * time.Second})
	if err != nil {
		return 0, 0, err
	}
	defer fn.Close()
	begun := time.Now()
	res, err := fn.Invoke(ctx, fmt.Appendf(nil, `{"workspace":%q}`, workspace.Default))
	if err != nil {
		return 0, 0, err
	}
	if res.FunctionError != nil {
		return 0, 0, fmt.Errorf("the function failed: %s\n%s", res.FunctionError.Message, res.Logs)
	}
	return float64(res.InitDuration.Microseconds()) / 1000, float64(time.Since(begun).Microseconds()) / 1000, nil
}

func mebibytes(path string) (float64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / (1 << 20), nil
}

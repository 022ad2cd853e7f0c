package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const (
	helloPackage     = "github.com/lanekeeper/lanekeeper/infra/rig/bench/hello"
	connectedPackage = "github.com/lanekeeper/lanekeeper/infra/rig/bench/connected"
	functionPackages = "github.com/lanekeeper/lanekeeper/functions/"
)

// coldStarts compares the real bootstraps with one that does nothing and with one that connects and
// runs an empty transaction. It measures the time until a bootstrap is ready for its first event,
// without the network, and the time until the heartbeat's first response, which includes an idle
// beat.
func coldStarts(ctx context.Context, rounds int) ([]Row, error) {
	_, url, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	names := []string{"hello", "connected", "heartbeat", "webhook", "chat", "worker", "operate", "coordinator", "migrate"}
	paths := map[string]string{}
	for _, name := range names {
		pkg := map[string]string{"hello": helloPackage, "connected": connectedPackage}[name]
		if paths[name], err = rig.Build(ctx, cmp.Or(pkg, functionPackages+name)); err != nil {
			return nil, err
		}
	}
	rounds = min(rounds, 40)
	env := map[string]string{"DATABASE_URL": url, "LOG_LEVEL": "error"}
	ready, first := map[string][]float64{}, map[string][]float64{}
	for i := range rounds + 3 {
		for _, name := range names {
			// The others have no event here to which they respond successfully.
			answers := name == "hello" || name == "connected" || name == "heartbeat"
			r, f, err := coldStart(ctx, paths[name], env, answers)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if i >= 3 {
				ready[name], first[name] = append(ready[name], r), append(first[name], f)
			}
		}
	}
	ratio := func(name string, of, to []float64, limit float64, detail string) Row {
		return Row{
			Name: name, Value: quotient(of, to), Limit: limit,
			Detail: fmt.Sprintf("medians %.1f ms and %.1f ms%s", median(of), median(to), detail),
		}
	}
	rows := []Row{
		ratio("cold start: heartbeat ready over hello world", ready["heartbeat"], ready["hello"], 3, ""),
		ratio("cold start: webhook ready over hello world", ready["webhook"], ready["hello"], 1.8, ""),
		ratio("cold start: chat ready over hello world", ready["chat"], ready["hello"], 3, ""),
		ratio("cold start: worker ready over hello world", ready["worker"], ready["hello"], 0, ""),
		ratio("cold start: operate ready over hello world", ready["operate"], ready["hello"], 0, ""),
		ratio("cold start: coordinator ready over hello world", ready["coordinator"], ready["hello"], 0, ""),
		ratio("cold start: migrate ready over hello world", ready["migrate"], ready["hello"], 0, ""),
		ratio("cold start: first idle beat over hello world, connection and transaction", first["heartbeat"], first["connected"], 3, "; goal 2"),
		ratio("cold start: first idle beat over hello world", first["heartbeat"], first["hello"], 0, ""),
		ratio("cold start: connection and transaction over hello world", first["connected"], first["hello"], 0, ""),
	}
	sizes := map[string]float64{"webhook": 14, "migrate": 14, "heartbeat": 18, "chat": 18, "worker": 18, "operate": 24, "coordinator": 24}
	for _, name := range names {
		size, err := mebibytes(paths[name])
		if err != nil {
			return nil, err
		}
		rows = append(rows, Row{Name: "bootstrap: " + name, Value: size, Unit: "MiB", Limit: sizes[name]})
	}
	return rows, nil
}

// quotient returns the median of a/b over the pairs.
func quotient(a, b []float64) float64 {
	q := make([]float64, len(a))
	for i := range a {
		q[i] = a[i] / b[i]
	}
	return median(q)
}

// coldStart starts a new sandbox. It returns the milliseconds until it asked for its first event,
// and until its first response. Unless answers is set, that response may be a failure.
func coldStart(ctx context.Context, bootstrap string, env map[string]string, answers bool) (ready, first float64, err error) {
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
	if answers && res.FunctionError != nil {
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

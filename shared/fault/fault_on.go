//go:build faults

// Package fault names the places where a process may die, and the effects it
// has on the world. This is the variant for tests: it asks the fault driver at
// the URL in LK_FAULT_URL at every point, and does nothing if there is none.
//
// Reading that variable here is the one exception to the rule that only
// package app reads the environment: a fault point may stand in any package,
// and none of them should have to hand a driver down that is never shipped.
package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

// client keeps no connection open and heeds no proxy: a process that was
// frozen for a while must not find a dead connection at its next point.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Point tells the fault driver that the process has come to the point of this
// name with the unit of work named by key, and waits for its answer, perhaps
// for ever. It returns an error if the driver wants the point to fail, and nil
// if there is no driver or it has gone away.
func Point(ctx context.Context, name, key string) error {
	status, text, err := post(ctx, "/point", map[string]any{"point": name, "key": key, "pid": os.Getpid()})
	if err == nil && status >= 300 {
		return fmt.Errorf("fault: point %s: %s", name, text)
	}
	return nil
}

// Effect tells the ledger that the effect of this name has happened for the
// key, and returns when that is recorded. A ledger that cannot be reached is
// reported on standard error, because a count without it would be too low.
func Effect(ctx context.Context, name, key string) {
	status, text, err := post(ctx, "/effect", map[string]any{"effect": name, "key": key, "pid": os.Getpid()})
	if err == nil && status >= 300 {
		err = fmt.Errorf("status %d: %s", status, text)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fault: effect %s of %s is not recorded: %v\n", name, key, err)
	}
}

// post sends one record. The caller's deadline and cancellation do not reach
// it: what happens at a point is for the test to say, and an effect has
// happened whether or not anyone still waits for it.
func post(ctx context.Context, path string, record map[string]any) (status int, text string, err error) {
	base := os.Getenv("LK_FAULT_URL")
	if base == "" {
		return http.StatusNoContent, "", nil
	}
	body, err := json.Marshal(record)
	if err != nil {
		return 0, "", err
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(bytes.TrimSpace(answer)), err
}

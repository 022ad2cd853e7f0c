//go:build faults

// Package fault names the places where a process may die, and the effects it has on the world. This
// variant is for tests. At every point it asks the fault driver at the URL in LK_FAULT_URL, and
// does nothing if there is none.
//
// Reading that variable here is the only exception to the rule that only package app reads the
// environment. A fault point may be in any package, and none of them should have to pass down a
// driver that is never shipped.
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

// client keeps no connection open and ignores proxies: a process that was frozen must not find a
// dead connection at its next point.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Point tells the fault driver that the process has reached the point name with the unit of work
// key. It waits for the answer, perhaps for ever. It returns an error if the driver wants the point
// to fail. It returns nil if there is no driver or the driver has gone away.
func Point(ctx context.Context, name, key string) error {
	status, text, err := post(ctx, "/point", map[string]any{"point": name, "key": key, "pid": os.Getpid()})
	if err == nil && status >= 300 {
		return fmt.Errorf("fault: point %s: %s", name, text)
	}
	return nil
}

// Effect tells the ledger that the effect name has happened for key, and returns when that is
// recorded. When the ledger can't be reached, it reports this on standard error, because the count
// would otherwise be too low.
func Effect(ctx context.Context, name, key string) {
	status, text, err := post(ctx, "/effect", map[string]any{"effect": name, "key": key, "pid": os.Getpid()})
	if err == nil && status >= 300 {
		err = fmt.Errorf("status %d: %s", status, text)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fault: effect %s of %s is not recorded: %v\n", name, key, err)
	}
}

// post sends one record. It ignores the caller's deadline and cancellation: the test decides what
// happens at a point, and an effect has happened whether or not the caller still waits.
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

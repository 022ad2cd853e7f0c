package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	runs "github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const (
	manyFollowers = 200
	ofEach        = 20 // per principal: the largest number allowed
	benchToken    = "admin-token-of-the-benchmark"
	measured      = 5 * time.Second
)

// followers measures the database load of idle followers: of a workspace's events, and of an
// execution with journals of two sizes.
func followers(ctx context.Context, _ int) ([]Row, error) {
	d, _, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	core := app.NewCore(d, app.Config{AdminToken: benchToken}, slog.New(slog.DiscardHandler), nil)
	handler, err := web.NewOperate(core, "bench", func(f func(context.Context)) { go f(ctx) }, nil)
	if err != nil {
		return nil, err
	}
	srv := httptest.NewServer(handler)
	defer srv.Close()
	rows := []Row{}
	tokens, err := keys(ctx, srv.URL, manyFollowers/ofEach)
	if err != nil {
		return nil, err
	}
	measure := func(name, path string, n int) error {
		perSecond, err := followed(ctx, d, srv.URL+path, tokens, n)
		rows = append(rows, Row{Name: name, Value: perSecond, Unit: "/s", Limit: 10, Detail: fmt.Sprintf("with %d followers of %d principals", n, min(n, len(tokens)))})
		return err
	}
	for _, n := range []int{1, 20, manyFollowers} { // as many open pages
		name := "followers of events: statements"
		if n < manyFollowers {
			name = fmt.Sprintf("%d %s", n, name)
		}
		if err := measure(name, "/api/v1/events", n); err != nil {
			return rows, err
		}
	}
	for _, entries := range []int{1, 40} {
		id, size, err := journalOf(ctx, core, entries)
		if err != nil {
			return rows, err
		}
		name := fmt.Sprintf("followers of a run, journal of %d KB: statements", size>>10)
		if err := measure(name, "/api/v1/executions/"+id+"/events", manyFollowers); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// keys creates n API keys. Each key is its own principal.
func keys(ctx context.Context, url string, n int) (tokens []string, err error) {
	for i := range n {
		body := fmt.Sprintf(`{"name":"follower %d","role":"MEMBER","scopes":["*:read"]}`, i)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v1/api-keys", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+benchToken)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		var made struct{ Key string }
		err = json.NewDecoder(resp.Body).Decode(&made)
		_ = resp.Body.Close() // it was read
		if err != nil || resp.StatusCode != http.StatusCreated {
			return nil, errors.Join(fmt.Errorf("make a key: %s", resp.Status), err)
		}
		tokens = append(tokens, made.Key)
	}
	return tokens, nil
}

// followed opens n streams and returns the number of statements per second: those of the open streams,
// and those of opening each again once a minute, as streams end then.
func followed(ctx context.Context, d *db.DB, url string, tokens []string, n int) (perSecond float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	opened := d.Stats().Statements
	// One after the other, because the first read of each stream is not measured.
	for i := range n {
		open := make(chan error, 2)
		listening.Go(func() {
			open <- listen(ctx, url, tokens[i%len(tokens)], func() { open <- nil })
		})
		if err := <-open; err != nil {
			return 0, err
		}
	}
	opening := float64(d.Stats().Statements-opened) / time.Minute.Seconds()
	before, begun := d.Stats().Statements, time.Now()
	select {
	case <-time.After(measured):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return float64(d.Stats().Statements-before)/time.Since(begun).Seconds() + opening, nil
}

// listen reads a stream and calls opened at its first line.
func listen(ctx context.Context, url, token string, opened func()) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("follow %s: %s", url, resp.Status)
	}
	lines := bufio.NewReader(resp.Body)
	for first := true; ; first = false {
		if _, err := lines.ReadString('\n'); err != nil {
			return err
		}
		if first {
			opened()
		}
	}
}

// journalOf creates a running execution whose journal has the given number of results of 32 KB.
func journalOf(ctx context.Context, core *app.Core, entries int) (id string, size int, err error) {
	a, err := wire.New(core, "bench")
	if err != nil {
		return "", 0, err
	}
	e := runs.Execution{ID: core.IDs(), Agent: activity.Operator, Surface: trace.Operate, Trace: core.Traces.New(trace.Operate), Attempt: 1}
	e.Subject = lane.Execution(e.ID)
	hold, err := a.Lanes.Acquire(ctx, lane.Request{Workspace: workspace.Default, Lane: e.Subject, Holder: "bench"})
	if err != nil {
		return "", 0, err
	}
	text, err := json.Marshal(strings.Repeat("x", 32<<10))
	if err != nil {
		return "", 0, err
	}
	body := json.RawMessage(`{"skill":"read","result":{"content":` + string(text) + `}}`)
	err = a.Lanes.InHold(ctx, hold, func(_ context.Context, tx lane.Tx) error {
		failed := a.Runs.Start(tx, e)
		for seq := range entries {
			failed = errors.Join(failed, a.Runs.Append(tx, e, runs.Entry{
				Seq: seq + 1, Step: seq + 1, Kind: runs.Result, Call: fmt.Sprintf("%d.1", seq+1), Status: runs.Succeeded, Body: body,
			}))
		}
		return failed
	})
	return e.ID, entries * len(body), err
}

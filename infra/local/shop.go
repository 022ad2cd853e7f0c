package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/seed"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/capture"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed shop.json
var shopScript []byte

// shop is the demo of the Engine Room: an ice cream shop at work, in a workspace of its own. Requests to the
// API and the runs that they begin create its content. Only the usage of past days comes from
// [seed.History].
type shop struct {
	core       *app.Core
	workspaces *workspace.Store
	lanes      *lane.Store
	handler    http.Handler // the API and the webhooks of this process
	token      string       // of the principal that fills it
	log        *slog.Logger
}

// The names of the workspace say how far the demo is, so that the next start finishes what a killed process
// has begun.
const (
	shopWanted = "Demo, not begun"         // the demo content of the default workspace may be incomplete, too
	shopDue    = "Demo, not made yet"      // the workspace is empty
	shopBegun  = "Demo, being made"        // an unknown part of its content is there
	shopName   = "Demo: an ice cream shop" // all of it is there
)

// unfinished reports whether a shop of this name is still to be made.
func unfinished(name string) bool { return name == shopWanted || name == shopDue || name == shopBegun }

// shopBy is recorded as the creator of the workspace.
const shopBy = "local:demo"

// shopIs returns the name of the workspace, or "" if there is none.
func shopIs(ctx context.Context, workspaces *workspace.Store) (string, error) {
	is, err := workspaces.Get(ctx, workspace.Demo)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return is.Name, err
}

// only returns the default workspace where the only other one is that of a demo that is still to be made: it
// has nothing yet that a beat could do. Otherwise it returns "": a beat runs in all.
func only(ctx context.Context, d *db.DB) (db.Workspace, error) {
	workspaces, err := workspace.New(d)
	if err != nil {
		return "", err
	}
	name, err := shopIs(ctx, workspaces)
	if err != nil || !unfinished(name) {
		return "", err
	}
	all, err := workspaces.All(ctx)
	if err != nil || len(all) != 2 {
		return "", err
	}
	return workspace.Default, nil
}

// wantShop writes down that the demo is to be made, unless another process has done so.
func wantShop(ctx context.Context, d *db.DB, workspaces *workspace.Store) error {
	err := d.Tx(ctx, workspace.Demo, func(ctx context.Context, tx *db.Tx) error {
		_, err := workspaces.Create(ctx, tx, workspace.DemoSlug, shopWanted, shopBy)
		return err
	})
	if errors.Is(err, workspace.ErrTaken) {
		return nil
	}
	return err
}

// renameShop gives the workspace another name if it has the name from.
func renameShop(ctx context.Context, d *db.DB, workspaces *workspace.Store, from, to string) error {
	is, err := workspaces.Get(ctx, workspace.Demo)
	if errors.Is(err, db.ErrNoRows) || err == nil && is.Name != from {
		return nil
	}
	if err == nil {
		err = d.Tx(ctx, workspace.Demo, func(ctx context.Context, tx *db.Tx) error {
			_, err := workspaces.Patch(ctx, tx, is, workspace.Patch{Name: &to})
			return err
		})
	}
	if errors.Is(err, workspace.ErrChanged) { // by another process, which does the same
		return nil
	}
	return err
}

// shopAhead is the number of days until the period of the budgets ends.
const shopAhead = 7

func newShop(core *app.Core, workspaces *workspace.Store, lanes *lane.Store) *shop {
	return &shop{core: core, workspaces: workspaces, lanes: lanes, token: rand.Text(), log: core.Log}
}

// verify returns the principal that fills the shop, for its token.
func (s *shop) verify(_ context.Context, token string) (auth.Principal, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		return auth.Principal{}, auth.ErrInvalid
	}
	return auth.Principal{Workspace: workspace.Demo, Kind: auth.Local, ID: "demo", Role: auth.Owner}, nil
}

// run makes the shop if it is due or was left unfinished by a process that ended, and keeps its lane held
// until ctx ends.
func (s *shop) run(ctx context.Context) {
	name, err := shopIs(ctx, s.workspaces)
	if err == nil && unfinished(name) {
		err = holdDemo(ctx, s.lanes, makePatience, func(ctx context.Context, hold *lane.Hold) (err error) {
			name, err = s.finish(ctx, hold)
			return err
		})
	}
	switch model := s.core.Config.LLMProvider; {
	case err != nil && ctx.Err() != nil:
		return
	case err != nil:
		s.log.WarnContext(ctx, "the demo is incomplete: the next start makes it anew", "error", err)
		return
	case name == "":
		return
	case model != demo.Name:
		s.log.WarnContext(ctx, "the beats of the demo's workspace cost money", "model", model, "do", "bin/lanekeeper demo remove")
	}
	s.hold(ctx)
}

// demoLease is the lease of the demo's lane: after a kill, the next start goes on within a minute. demoRequest is the
// time limit of one request of the script, and makePatience how long a process waits for another one that makes or
// removes the demo.
const (
	demoLease    = 45 * time.Second
	demoRequest  = 40 * time.Second
	makePatience = 10 * time.Minute
)

// holdDemo runs fn under the lane of the demo. A process that makes or removes the demo holds this lane.
func holdDemo(
	ctx context.Context, lanes *lane.Store, patience time.Duration, fn func(context.Context, *lane.Hold) error,
) error {
	request := lane.Request{
		Workspace: workspace.Default, Lane: seed.Lane, Holder: lane.Holder("demo/" + instance()), TTL: demoLease,
	}
	return lanes.Do(ctx, request, lane.Wait{Limit: patience}, fn)
}

// finish makes the shop if that is still due, and returns the name of its workspace; "": there is none. It
// deletes an unfinished shop that may not be made, because its runs would cost money or because DEMO is set.
func (s *shop) finish(ctx context.Context, hold *lane.Hold) (string, error) {
	name, err := shopIs(ctx, s.workspaces) // another process may have made or removed it meanwhile
	if err != nil || !unfinished(name) {
		return name, err
	}
	if !mayShop(s.core.Config) {
		return "", clearDemo(ctx, s.ask, s.remove)
	}
	if name == shopBegun {
		if err := clearDemo(ctx, s.ask, s.empty); err != nil {
			return name, err
		}
	}
	for _, from := range []string{shopWanted, shopDue} {
		if err := renameShop(ctx, s.core.DB, s.workspaces, from, shopBegun); err != nil {
			return name, err
		}
	}
	return shopName, s.fill(ctx, hold)
}

// remove deletes the workspace.
func (s *shop) remove(ctx context.Context) error { return deleteShop(ctx, s.ask) }

// empty deletes the workspace and makes it again in one transaction, so that a kill leaves it due.
func (s *shop) empty(ctx context.Context) error {
	is, err := s.workspaces.Get(ctx, workspace.Demo)
	if err != nil {
		return err
	}
	return s.core.DB.Tx(ctx, workspace.Demo, func(ctx context.Context, tx *db.Tx) error {
		if err := s.workspaces.Delete(ctx, tx, is); err != nil {
			return err
		}
		_, err := s.workspaces.Create(ctx, tx, workspace.DemoSlug, shopDue, shopBy)
		return err
	})
}

// mayShop reports whether the shop may be made: another model than the demo's would cost money.
func mayShop(cfg app.Config) bool { return cfg.Demo == nil && cfg.LLMProvider == demo.Name }

// shopStep is one request of the script.
type shopStep struct {
	Do   string            `json:"do"` // method and path
	As   string            `json:"as"` // whose token, of those that were kept; empty: the demo's
	Body json.RawMessage   `json:"body"`
	Keep map[string]string `json:"keep"` // names of fields of the answer, by the names under which later requests use them
}

// placeholder matches the placeholder of a value from an earlier answer, or of a new id. It matches no
// template of a webhook rule, because those have dots.
var placeholder = regexp.MustCompile(`\{\{(new )?([a-zA-Z]+)\}\}`)

// fill sends the requests of the script. Before each one it renews the lane of the demo, and the request ends
// before that lease does.
func (s *shop) fill(ctx context.Context, hold *lane.Hold) error {
	begun := time.Now()
	var steps []shopStep
	if err := json.Unmarshal(shopScript, &steps); err != nil {
		return fmt.Errorf("read the script of the demo: %w", err)
	}
	s.log.InfoContext(ctx, "the demo is being made")
	now := s.core.Clock().UTC()
	values := map[string]string{
		"start": now.Truncate(24*time.Hour).AddDate(0, 0, -seed.HistoryDays).Format(time.RFC3339),
		"end":   now.Truncate(24*time.Hour).AddDate(0, 0, shopAhead).Format(time.RFC3339),
	}
	held := func(do func(context.Context) error) error {
		if err := s.lanes.Renew(ctx, hold, demoLease); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, demoRequest)
		defer cancel()
		return do(ctx)
	}
	for _, step := range steps {
		if err := held(func(ctx context.Context) error { return s.do(ctx, step, values) }); err != nil {
			return err
		}
	}
	err := held(func(ctx context.Context) error {
		if err := seed.History(ctx, s.core, workspace.Demo, now); err != nil {
			return err
		}
		if err := s.take(ctx); err != nil {
			return err
		}
		return renameShop(ctx, s.core.DB, s.workspaces, shopBegun, shopName)
	})
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "the demo is ready", "requests", len(steps), "took", time.Since(begun).Round(100*time.Millisecond).String())
	return nil
}

// do sends the request of a step and keeps what later ones need of the answer.
func (s *shop) do(ctx context.Context, step shopStep, values map[string]string) error {
	filled := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(found string) string {
			is := placeholder.FindStringSubmatch(found)
			if is[1] != "" {
				values[is[2]] = s.core.IDs()
			}
			return values[is[2]]
		})
	}
	method, path, _ := strings.Cut(filled(step.Do), " ")
	body := json.RawMessage(filled(string(step.Body)))
	if !strings.HasPrefix(path, "/webhooks/") {
		path = "/api/v1" + path
	}
	token := s.token
	if step.As != "" {
		token = values[step.As]
	}
	var answer map[string]any
	if _, err := s.send(ctx, token, method, path, body, &answer); err != nil {
		return err
	}
	for name, field := range step.Keep {
		values[name], _ = answer[field].(string)
	}
	return nil
}

// asker sends a request to the API.
type asker func(ctx context.Context, method, path string, body, into any) (json.RawMessage, error)

func (s *shop) ask(ctx context.Context, method, path string, body, into any) (json.RawMessage, error) {
	return s.send(ctx, s.token, method, path, body, into)
}

func (s *shop) send(ctx context.Context, token, method, path string, body, into any) (json.RawMessage, error) {
	return send(ctx, s.handler, token, method, path, body, into)
}

// send sends a request of the demo to the API of this process.
func send(ctx context.Context, to http.Handler, token, method, path string, body, into any) (json.RawMessage, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", path, err)
	}
	if method == http.MethodGet || method == http.MethodDelete {
		sent = nil
	}
	r, err := http.NewRequestWithContext(context.WithValue(ctx, quietKey{}, true), method, "http://localhost"+path, bytes.NewReader(sent))
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", path, err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	w := &capture.Buffer{}
	to.ServeHTTP(w, r)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := refusalOf(w); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if into != nil && w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			return nil, fmt.Errorf("read the answer of %s: %w", path, err)
		}
	}
	return w.Body.Bytes(), nil
}

// quietKey marks the contexts of the requests of the demo.
type quietKey struct{}

// quiet is a slog.Handler that omits events of the requests of the demo, except warnings and errors.
type quiet struct{ slog.Handler }

// Handle implements [slog.Handler].
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if ctx.Value(quietKey{}) != nil && r.Level < slog.LevelWarn {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements [slog.Handler].
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

// A lane of the shop that stays held while this process runs.
const (
	shopLane   = "stock-taking"
	shopHolder = "Ada counts the freezer (demo)"
	shopToken  = "00000000-0000-4000-8000-0000000d0a1a" //nolint:gosec // of the demo's lane, which protects nothing
	shopLease  = 10 * time.Minute
	shopAgain  = 10 * time.Second // after a request that failed
)

// take acquires or renews the lane under its fixed token.
func (s *shop) take(ctx context.Context) error {
	body := map[string]any{"holder": shopHolder, "ttlSeconds": int(shopLease.Seconds()), "token": shopToken}
	_, err := s.ask(ctx, http.MethodPost, "/api/v1/lanes/"+shopLane+"/acquire", body, nil)
	return err
}

// hold keeps a lane of the shop held until ctx ends, somebody releases it, or the demo is removed. Other failures
// pass.
func (s *shop) hold(ctx context.Context) {
	for held := false; ; {
		pause := shopLease / 3
		var err error
		if held {
			body := map[string]any{"ttlSeconds": int(shopLease.Seconds()), "token": shopToken}
			_, err = s.ask(ctx, http.MethodPost, "/api/v1/lanes/"+shopLane+"/renew", body, nil)
		} else {
			err = s.take(ctx)
		}
		refused, is := errors.AsType[*refusedError](err)
		switch {
		case is && (refused.Status == http.StatusNotFound || refused.Status == http.StatusConflict):
			return
		case err != nil:
			pause = shopAgain
		default:
			held = true
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

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
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed shop.json
var shopScript []byte

// shop is the demo of the Engine Room: an ice cream shop at work, in a workspace of its own. All of it
// comes about by requests to the API and by the runs that follow from them; only the usage of past days is
// added by [seed.History].
type shop struct {
	core       *app.Core
	workspaces *workspace.Store
	handler    http.Handler // the API and the webhooks of this process
	token      string       // of the principal that fills it
	log        *slog.Logger
}

// The workspace has the first name until all of its content is there.
const (
	shopUnfinished = "Demo, being filled"
	shopName       = "Demo: an ice cream shop"
)

// shopAhead is how many days the period of the budgets goes on.
const shopAhead = 7

func newShop(core *app.Core, workspaces *workspace.Store) *shop {
	return &shop{core: core, workspaces: workspaces, token: rand.Text(), log: core.Log}
}

// verify returns the principal that fills the shop, for its token.
func (s *shop) verify(_ context.Context, token string) (auth.Principal, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		return auth.Principal{}, auth.ErrInvalid
	}
	return auth.Principal{Workspace: workspace.Demo, Kind: auth.Local, ID: "demo", Role: auth.Owner}, nil
}

// run fills the shop if it is wanted or was left unfinished by a process that ended, and keeps its lane
// held until ctx ends. An unfinished one goes if it may not be made: its runs would cost money, or DEMO is
// set.
func (s *shop) run(ctx context.Context, wanted bool) {
	there, err := s.workspaces.Get(ctx, workspace.Demo)
	switch {
	case errors.Is(err, db.ErrNoRows):
		if !wanted {
			return
		}
		err = s.fill(ctx)
	case err == nil && there.Name == shopUnfinished:
		if err = clearDemo(ctx, s.ask); err == nil {
			if !mayShop(s.core.Config) {
				return
			}
			err = s.fill(ctx)
		}
	}
	if model := s.core.Config.LLMProvider; err == nil && model != demo.Name {
		s.log.WarnContext(ctx, "the beats of the demo's workspace cost money", "model", model, "do", "lanekeeper demo remove")
	}
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "the demo is incomplete: the next start makes it anew", "error", err)
		}
		return
	}
	s.hold(ctx)
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

// placeholder finds what stands for a value of an earlier answer, or for a new id. Templates of webhook
// rules have dots.
var placeholder = regexp.MustCompile(`\{\{(new )?([a-zA-Z]+)\}\}`)

// fill makes the workspace and sends the requests of the script.
func (s *shop) fill(ctx context.Context) error {
	begun := time.Now()
	var steps []shopStep
	if err := json.Unmarshal(shopScript, &steps); err != nil {
		return fmt.Errorf("read the script of the demo: %w", err)
	}
	err := s.core.DB.Tx(ctx, workspace.Demo, func(ctx context.Context, tx *db.Tx) error {
		_, err := s.workspaces.Create(ctx, tx, workspace.DemoSlug, shopUnfinished, "local:demo")
		return err
	})
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "the demo is being made") // from here on the next start finishes it
	now := s.core.Clock().UTC()
	values := map[string]string{
		"start": now.Truncate(24*time.Hour).AddDate(0, 0, -seed.HistoryDays).Format(time.RFC3339),
		"end":   now.Truncate(24*time.Hour).AddDate(0, 0, shopAhead).Format(time.RFC3339),
	}
	for _, step := range steps {
		if err := s.do(ctx, step, values); err != nil {
			return err
		}
	}
	if err := seed.History(ctx, s.core, workspace.Demo, now); err != nil {
		return err
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	if _, err := s.ask(ctx, http.MethodPatch, "/api/v1/workspaces/"+string(workspace.Demo),
		map[string]string{"name": shopName}, nil); err != nil {
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
	w := &answered{header: http.Header{}}
	s.handler.ServeHTTP(w, r)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := w.refused(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if into != nil && w.body.Len() > 0 {
		if err := json.Unmarshal(w.body.Bytes(), into); err != nil {
			return nil, fmt.Errorf("read the answer of %s: %w", path, err)
		}
	}
	return w.body.Bytes(), nil
}

// quietKey marks the contexts of the requests that fill the demo.
type quietKey struct{}

// quiet is a slog.Handler that leaves out what is only the demo being filled.
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

// The lane of the shop that somebody holds while this process runs.
const (
	shopLane   = "stock-taking"
	shopHolder = "Ada counts the freezer (demo)"
	shopToken  = "00000000-0000-4000-8000-0000000d0a1a" //nolint:gosec // of the demo's lane, which protects nothing
	shopLease  = 10 * time.Minute
)

// take takes the lane. Whoever has it by this token still has it afterwards.
func (s *shop) take(ctx context.Context) error {
	body := map[string]any{"holder": shopHolder, "ttlSeconds": int(shopLease.Seconds()), "token": shopToken}
	_, err := s.ask(ctx, http.MethodPost, "/api/v1/lanes/"+shopLane+"/acquire", body, nil)
	return err
}

// hold keeps a lane of the shop held, until ctx ends or somebody releases it.
func (s *shop) hold(ctx context.Context) {
	err := s.take(ctx)
	for err == nil { // else somebody released it, or the demo was removed
		timer := time.NewTimer(shopLease / 3)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		body := map[string]any{"ttlSeconds": int(shopLease.Seconds()), "token": shopToken}
		_, err = s.ask(ctx, http.MethodPost, "/api/v1/lanes/"+shopLane+"/renew", body, nil)
	}
}

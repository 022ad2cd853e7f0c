package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/door"
	"github.com/lanekeeper/lanekeeper/shared/app/hook"
	"github.com/lanekeeper/lanekeeper/shared/app/mail"
	"github.com/lanekeeper/lanekeeper/shared/app/visit"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/capture"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
	"github.com/lanekeeper/lanekeeper/shared/surface/webhook"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// newOrigin returns the handler of everything that this process serves: the API, webhooks and the chat.
// demoKey is the site key of the page /chat-demo.
func newOrigin(a *wire.Surfaces, in *door.Door, b *beats, valkey func(context.Context) error, demoKey string) (http.Handler, error) {
	api, err := newAPI(a, in, b, valkey)
	if err != nil {
		return nil, err
	}
	hooks, err := hook.New(a.Core, func(_ context.Context, ws db.Workspace) {
		b.background(func(ctx context.Context) { a.Tender.Send(ctx, ws) })
	})
	if err != nil {
		return nil, err
	}
	visitors := visit.New(a, in, visit.Process{
		Send:    func(ws db.Workspace) { b.background(func(ctx context.Context) { a.Tender.Send(ctx, ws) }) },
		Drain:   b.drained(),
		DemoKey: func(context.Context) (string, error) { return demoKey, nil },
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, webhook.Prefix):
			hooks.ServeHTTP(w, r)
		case chat.Serves(r.URL.Path):
			visitors.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	}), nil
}

// newAPI returns the handler of the API.
func newAPI(a *wire.Surfaces, in *door.Door, b *beats, valkey func(context.Context) error) (http.Handler, error) {
	return web.NewAPI(a, in, web.Process{
		Beat: b.beat, Background: b.background, Drain: b.drained(), Valkey: valkey, Version: buildOf().Version,
	})
}

// operator sends requests to the API in this process, so that a verb prints the API's answers. The audit log
// names the user of this machine.
type operator struct {
	workspace db.Workspace
	handler   http.Handler
	beats     *beats
}

func newOperator(ctx context.Context, core *app.Core, ws db.Workspace) (*operator, error) {
	who := auth.Principal{Workspace: ws, Kind: auth.Local, ID: username(), Role: auth.Owner}
	a, err := wire.New(core, instance(), mail.Channels(core)...)
	if err != nil {
		return nil, err
	}
	in, err := door.New(a, "", false, func(ctx context.Context, _ string) (auth.Principal, error) {
		return auth.Everywhere(ctx, who, a.Workspaces.All) // a path names another than the flag does
	})
	if err != nil {
		return nil, err
	}
	in.Limits = nil
	b := &beats{process: ctx, log: core.Log}
	handler, err := newAPI(a, in, b, nil)
	return &operator{ws, handler, b}, err
}

// operate opens what a verb needs that asks the API: the configured database, as
// it is. The caller closes it. The workspace is given by its id or its name.
func (c *console) operate(ctx context.Context, ws db.Workspace) (*app.Core, *operator, error) {
	cfg, err := c.load()
	if err != nil {
		return nil, nil, err
	}
	d, err := connect(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	core := app.NewCore(d, cfg, c.logger(c.err, cfg, slog.LevelError), awsConfig)
	if ws, err = c.existing(ctx, core, ws); err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	ask, err := newOperator(ctx, core, ws)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return core, ask, nil
}

// existing returns the id of the workspace that has a given id, slug or name. It returns an error if there is
// none, because its listings would look empty.
func (c *console) existing(ctx context.Context, core *app.Core, given db.Workspace) (db.Workspace, error) {
	workspaces, err := workspace.New(core.DB)
	if err != nil {
		return "", err
	}
	ids, err := workspaces.All(ctx)
	if err != nil || slices.Contains(ids, given) {
		return given, err
	}
	all, err := workspaces.List(ctx, ids)
	if err != nil {
		return "", err
	}
	var named []db.Workspace
	for _, w := range all {
		if w.Slug == string(given) { // no other workspace has it
			return w.ID, nil
		}
		if strings.EqualFold(w.Name, string(given)) {
			named = append(named, w.ID)
		}
	}
	if len(named) == 1 {
		return named[0], nil
	}
	wrong := "there is no workspace %q"
	if len(named) > 1 {
		wrong = "several workspaces are called %q"
	}
	return "", &hinted{fmt.Errorf(wrong, clean(string(given))), fmt.Sprintf("`%s workspaces` lists those that there are.", c.name)}
}

// username is the user's name on this machine.
func username() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return "unknown"
	}
	return u.Username
}

// ask sends a request, body as JSON unless it is nil, and reads the answer into
// into, the whole of which it also returns. A refusal is a [refusedError].
func (o *operator) ask(ctx context.Context, method, path string, body, into any) (json.RawMessage, error) {
	w := &capture.Buffer{}
	if err := o.send(ctx, method, path, body, w); err != nil {
		return nil, err
	}
	err := refusalOf(w)
	if refused, is := errors.AsType[*refusedError](err); is {
		refused.path = path
	}
	if err != nil {
		return nil, err
	}
	if w.Body.Len() == 0 { // deleted
		return nil, nil
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return w.Body.Bytes(), nil
}

// send has a request answered, and what it kicked off come to its end.
func (o *operator) send(ctx context.Context, method, path string, body any, w http.ResponseWriter) error {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return fmt.Errorf("ask for %s: %w", path, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, &sent)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	r.Header.Set("Authorization", "Bearer local")
	r.Header.Set("Content-Type", "application/json")
	o.handler.ServeHTTP(w, r)
	o.beats.working.Wait()
	return nil
}

// refusalOf returns the refusal that was answered; nil: there was none.
func refusalOf(w *capture.Buffer) error {
	if w.Status < http.StatusBadRequest {
		return nil
	}
	refused := &refusedError{}
	if err := json.Unmarshal(w.Body.Bytes(), &refused.Problem); err != nil {
		return fmt.Errorf("it was answered with %d", w.Status)
	}
	return refused
}

// A refusedError is a problem that the API answered with.
type refusedError struct {
	problem.Problem
	path string // of the request, if it is known; it has what the person typed for an id
}

func (e *refusedError) Error() string {
	said := []string{e.Detail}
	if e.Holder != "" {
		said[0] += " by " + e.Holder
		if e.ExpiresAt != nil {
			said[0] += ", until " + e.ExpiresAt.Local().Format(time.TimeOnly) + " at the latest"
		}
	}
	for _, f := range e.Errors {
		if strings.HasPrefix(f.Location, "path.") && e.path != "" {
			at, _, _ := strings.Cut(strings.TrimPrefix(e.path, "/api/v1/"), "?")
			f.Message += " in " + clean(at)
		}
		said = append(said, f.Location+": "+f.Message)
	}
	return strings.Join(said, "; ")
}

// Unwrap names the failures that have an exit code of their own.
func (e *refusedError) Unwrap() error {
	if e.Code == "disk_full" {
		return db.ErrFull
	}
	if e.Status == http.StatusServiceUnavailable {
		return db.ErrUnavailable
	}
	return nil
}

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	executions "github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// rotated is the result of a rotation over all workspaces.
type rotated struct {
	NewKey   string   `json:"newKey,omitempty"`
	Resealed int      `json:"resealed"`
	Failed   []string `json:"failed"`
}

// secret reads a secret to store under a name. The value comes from standard input, because an
// argument would appear in the shell's history and in the list of processes.
func (c *console) secret(name string) (any, error) {
	if isTerminal(c.in) {
		fmt.Fprintln(c.err, "Type the value, which is shown, and end it with Enter and Ctrl-D. Or: secrets set NAME <FILE")
	}
	value, err := c.input()
	if err != nil {
		return nil, err
	}
	return map[string]string{"name": name, "value": strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")}, nil
}

// orRotate adds `rotate` to a verb. It re-encrypts all secrets under another key while they are in
// use.
func orRotate(others func(*flag.FlagSet) action) func(*flag.FlagSet) action {
	return func(flags *flag.FlagSet) action {
		keep := flags.Bool("keep-key", false, "make no new key: finish what was begun, or follow a new alias in KMS")
		other := others(flags)
		return func(ctx context.Context, c *console, args []string) error {
			if len(args) == 1 && args[0] == "rotate" {
				return c.rotate(ctx, *keep)
			}
			return other(ctx, c, args)
		}
	}
}

// rotate re-encrypts the secrets of all workspaces.
func (c *console) rotate(ctx context.Context, keep bool) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	d, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer d.Close()
	agent, err := wire.New(app.NewCore(d, cfg, c.logger(c.err, cfg, cfg.LogLevel), awsConfig), instance())
	if err != nil {
		return err
	}
	did := rotated{Failed: []string{}}
	if cfg.KMSKeyID == "" && !keep {
		if did.NewKey, err = secret.NewKeyFile(cfg.SecretKeyFile).AddKey(); err != nil {
			return err
		}
	}
	all, err := agent.Workspaces.All(ctx)
	if err != nil {
		return err
	}
	for _, ws := range all {
		if err := rotate(ctx, agent, ws, &did); err != nil {
			return fmt.Errorf("after %s: %w\nRun it again with --keep-key: it goes on where it was", count(int64(did.Resealed), "secret"), err)
		}
	}
	err = c.answer(did, func(w io.Writer) {
		fmt.Fprintf(w, "Sealed anew under the current key: %s.\n", count(int64(did.Resealed), "secret"))
		for _, name := range did.Failed {
			fmt.Fprintf(w, "%s could not be opened, and stays as it is: store it anew.\n", name)
		}
	})
	if err == nil && len(did.Failed) > 0 {
		err = fmt.Errorf("%s could not be opened", count(int64(len(did.Failed)), "secret"))
	}
	return err
}

// rotate re-encrypts a workspace's secrets in batches.
func rotate(ctx context.Context, agent *wire.Surfaces, ws db.Workspace, did *rotated) error {
	for {
		r, err := agent.Secrets.Rotate(ctx, ws, 100)
		did.Resealed += r.Resealed
		if err != nil {
			return err
		}
		if r.Done() {
			did.Failed = append(did.Failed, r.Failed...)
			if err := rotateInputs(ctx, agent, ws, agent.Runs, executions.InputPlace, "execution", did); err != nil {
				return err
			}
			if err := rotateInputs(ctx, agent, ws, agent.Tasks, task.InputPlace, "task", did); err != nil {
				return err
			}
			resealed, failed, err := agent.Inbox.Reseal(ctx, ws)
			did.Resealed += resealed
			for _, id := range failed {
				did.Failed = append(did.Failed, "the secret of webhook source "+id)
			}
			if err != nil {
				return err
			}
			resealed, failed, err = agent.Endpoints.Store.Reseal(ctx, ws)
			did.Resealed += resealed
			for _, id := range failed {
				did.Failed = append(did.Failed, "the secret of webhook endpoint "+id)
			}
			return err
		}
	}
}

// sealedInputs is a store of encrypted inputs.
type sealedInputs interface {
	SealedInputs(ctx context.Context, ws db.Workspace, after string, limit int) ([]executions.Sealed, error)
	ResealInput(ctx context.Context, ws db.Workspace, was executions.Sealed, now []byte) (bool, error)
}

// rotateInputs re-encrypts the inputs of a workspace's executions or tasks.
func rotateInputs(ctx context.Context, agent *wire.Surfaces, ws db.Workspace, inputs sealedInputs,
	place func(db.Workspace, string) secret.Place, of string, did *rotated) error {
	for after := uuid.Nil.String(); ; {
		page, err := inputs.SealedInputs(ctx, ws, after, 100)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, was := range page {
			now, err := agent.Secrets.ResealAt(ctx, place(ws, was.ID), was.Input)
			if secret.Lasting(err) {
				did.Failed = append(did.Failed, "the input of "+of+" "+was.ID)
				continue
			}
			if err != nil {
				return err
			}
			if now == nil {
				continue
			}
			replaced, err := inputs.ResealInput(ctx, ws, was, now)
			if err != nil {
				return err
			}
			if replaced {
				did.Resealed++
			}
		}
		after = page[len(page)-1].ID
	}
}

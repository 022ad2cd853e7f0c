package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// load reads the configuration. If the environment has a model's key but no LLM_PROVIDER, load uses
// that model only if a person has agreed to it before.
func (c *console) load() (app.Config, error) {
	cfg, err := app.LoadConfig(c.environ)
	if err != nil {
		return cfg, err
	}
	provider, _ := cfg.Offered()
	if provider == "" {
		return cfg, nil
	}
	agreed, err := os.ReadFile(agreedFile(cfg))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cfg, fmt.Errorf("read which model may be asked: %w", err)
	}
	if strings.TrimSpace(string(agreed)) != provider {
		return cfg, nil
	}
	return c.choose(provider)
}

// choose returns the configuration with the given provider.
func (c *console) choose(provider string) (app.Config, error) {
	return app.LoadConfig(append(slices.Clone(c.environ), "LLM_PROVIDER="+provider))
}

// agreedFile returns the path of the file that records a person's consent to a provider, for all
// verbs.
func agreedFile(cfg app.Config) string {
	return filepath.Join(filepath.Dir(cfg.SQLitePath), "llm-provider")
}

// offer asks the person at the terminal whether the agent may use the model whose key is in the
// environment, and records a yes. Without a terminal it does not ask, and the demo model is used.
func (c *console) offer(ctx context.Context, cfg app.Config) (app.Config, error) {
	provider, model := cfg.Offered()
	if provider == "" || !c.terminal || c.json {
		return cfg, nil
	}
	chosen, err := c.choose(provider)
	if err != nil { // such as a server without a configured model
		return cfg, nil //nolint:nilerr // it is not offered then
	}
	fmt.Fprintf(c.out, "A key for %s is in the environment. May the agent ask %s, which costs money?\n"+
		"Each beat asks it. Without a yes the demo model works, a script that costs nothing. [y/N] ", provider, clean(model))
	said, err := c.line(ctx)
	if err != nil {
		return cfg, err
	}
	if said = strings.ToLower(strings.TrimSpace(said)); said != "y" && said != "yes" {
		return cfg, nil
	}
	path := agreedFile(cfg)
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(provider+"\n"), 0o600)
	}
	if err != nil {
		return cfg, fmt.Errorf("keep which model may be asked: %w", err)
	}
	return chosen, nil
}

// line reads a line from the terminal, until ctx ends.
func (c *console) line(ctx context.Context) (string, error) {
	type typed struct {
		text string
		err  error
	}
	read := make(chan typed, 1)
	go func() {
		text, err := bufio.NewReader(c.in).ReadString('\n')
		read <- typed{text, err}
	}()
	select {
	case t := <-read:
		if t.err != nil && !errors.Is(t.err, io.EOF) {
			return "", fmt.Errorf("read the answer: %w", t.err)
		}
		return t.text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

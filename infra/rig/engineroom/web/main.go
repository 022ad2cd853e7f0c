// Command web writes the types of the API that the Engine Room's page uses, and builds the page to
// shared/engineroom/dist. It is called by `make web`, at the root of the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/lanekeeper/lanekeeper/infra/rig/engineroom"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

func main() {
	if err := build(context.Background(), filepath.Join("shared", "engineroom")); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, room string) error {
	doc, err := description(ctx)
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	types, err := engineroom.Types(doc)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(room, "web", engineroom.TypesFile), types, 0o600); err != nil {
		return err
	}
	return engineroom.Build(ctx, filepath.Join(room, "web"), filepath.Join(room, "dist"))
}

// description returns the API's OpenAPI document.
func description(ctx context.Context) (doc []byte, err error) {
	dir, err := os.MkdirTemp("", "lanekeeper-web-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "lk.db")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	core := app.NewCore(d, app.Config{AdminToken: "nobody-asks-with-this-token-0123456789"}, slog.New(slog.DiscardHandler), nil)
	handler, err := web.NewOperate(core, "web", func(func(context.Context)) {}, nil)
	if err != nil {
		return nil, err
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/openapi.json", nil))
	if answer.Code != http.StatusOK {
		return nil, fmt.Errorf("%d %s", answer.Code, answer.Body)
	}
	return answer.Body.Bytes(), nil
}

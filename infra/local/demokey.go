package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// demoKeyName is the name of the site key of the page /chat-demo.
const demoKeyName = "chat-demo"

// demoKeyFile returns the path of the file with that key, beside the database file.
func demoKeyFile(cfg app.Config) string {
	return filepath.Join(filepath.Dir(cfg.SQLitePath), "chat-demo-key")
}

// ensureDemoKey returns the site key of the page /chat-demo, and makes one if there is none that
// works. The key names the origins of this process. It is kept in a file, because the database
// has only its hash. A key that a person has revoked is not replaced: the page then has none ("").
func ensureDemoKey(ctx context.Context, core *app.Core, people *auth.Store, address string) (string, error) {
	wanted := originsOf(address)
	path := demoKeyFile(core.Config)
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the key of /chat-demo: %w", err)
	}
	if key := strings.TrimSpace(string(kept)); key != "" {
		p, err := people.VerifyKey(ctx, key)
		switch {
		case err == nil && p.Kind == auth.Site && p.Workspace == workspace.Default:
			return key, editDemoKey(ctx, core, people, p, wanted)
		case err != nil && !errors.Is(err, auth.ErrInvalid):
			return "", fmt.Errorf("check the key of /chat-demo: %w", err)
		}
		revoked, err := demoKeyRevoked(ctx, people, key)
		if err != nil || revoked {
			return "", err
		}
	}
	var made secret.Value
	err = core.DB.Tx(ctx, workspace.Default, func(ctx context.Context, tx *db.Tx) (err error) {
		by := auth.Principal{Workspace: workspace.Default, Kind: auth.Local, ID: username(), Role: auth.Owner}
		_, made, err = people.CreateKey(ctx, tx, by, auth.APIKey{Name: demoKeyName, Kind: auth.SiteKind, Origins: wanted})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make the key of /chat-demo: %w", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(made.Reveal()+"\n"), 0o600)); err != nil {
		return "", fmt.Errorf("keep the key of /chat-demo: %w", err)
	}
	return made.Reveal(), nil
}

// editDemoKey changes the origins of the key to those of this process, because ADDR may have changed.
func editDemoKey(ctx context.Context, core *app.Core, people *auth.Store, p auth.Principal, wanted []string) error {
	if slices.Equal(p.Origins, wanted) {
		return nil
	}
	err := core.DB.Tx(ctx, workspace.Default, func(ctx context.Context, tx *db.Tx) error {
		_, err := people.EditSiteKey(ctx, tx, p.ID, auth.SiteKeyEdits{Origins: &wanted})
		return err
	})
	if err != nil {
		return fmt.Errorf("change the origins of the key of /chat-demo: %w", err)
	}
	return nil
}

// demoKeyRevoked reports whether the key was revoked in this database. A key that the database does not have
// belongs to another one, and was not revoked.
func demoKeyRevoked(ctx context.Context, people *auth.Store, key string) (bool, error) {
	for after := ""; ; {
		const page = 200
		keys, err := people.Keys(ctx, workspace.Default, auth.SiteKind, after, page)
		if err != nil {
			return false, err
		}
		for _, k := range keys {
			if k.Name == demoKeyName && k.RevokedAt != nil && strings.HasPrefix(key, k.Prefix) {
				return true, nil
			}
			after = k.ID
		}
		if len(keys) < page {
			return false, nil
		}
	}
}

// originsOf returns the origins under which a browser on this machine reaches a listener at an address.
func originsOf(address string) []string {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(urlOf(address), "http://"))
	if err != nil {
		return []string{urlOf(address)}
	}
	var all []string
	for _, name := range []string{host, "127.0.0.1", "localhost"} {
		origin := strings.TrimSuffix("http://"+net.JoinHostPort(name, port), ":80") // as browsers write it
		if !slices.Contains(all, origin) {
			all = append(all, origin)
		}
	}
	return all
}

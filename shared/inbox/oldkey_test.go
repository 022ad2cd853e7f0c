package inbox_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// rotatedKey creates a source whose old secret is encrypted with a lost key, and whose new secret
// is encrypted with an existing key.
func (w *world) rotatedKey(t testing.TB) inbox.Source {
	t.Helper()
	made := w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub})
	if _, err := w.keys.AddKey(); err != nil {
		t.Fatal(err)
	}
	draft, err := w.s.SealAnew(t.Context(), w.Workspace, made, secret.NewValue("the secret after that"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.s.Rotate(ctx, tx, draft)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(w.keyPath)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	gone := false
	for line := range strings.Lines(string(raw)) {
		if !gone && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			gone = true
			continue
		}
		kept = append(kept, line)
	}
	if err := os.WriteFile(w.keyPath, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestAnOldSecretThatDoesNotOpen: requests that are signed with the new secret are accepted.
func TestAnOldSecretThatDoesNotOpen(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.rotatedKey(t)
		f := w.find(t, "gh")
		secrets, err := w.s.Secrets(t.Context(), f)
		if err != nil || len(secrets) != 1 || secrets[0].Reveal() != "the secret after that" {
			t.Errorf("%d secrets, %v", len(secrets), err)
		}
		if err := os.Remove(w.keyPath); err != nil {
			t.Fatal(err)
		}
		if secrets, err := w.store(t).Secrets(t.Context(), f); err == nil {
			t.Errorf("%d secrets without a key", len(secrets))
		}
	})
}

// TestAnOldSecretThatIsOverIsNotSealedAnew: the expired secret is cleared when the new one is
// encrypted again.
func TestAnOldSecretThatIsOverIsNotSealedAnew(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made := w.rotatedKey(t)
		if _, err := w.keys.AddKey(); err != nil {
			t.Fatal(err)
		}
		if n, failed, err := w.s.Reseal(t.Context(), w.Workspace); n != 0 || len(failed) != 1 || failed[0] != made.ID || err != nil {
			t.Errorf("while the old one is valid: %d, %v, %v", n, failed, err)
		}
		w.Skew.Advance(24*time.Hour + time.Second)
		if n, failed, err := w.s.Reseal(t.Context(), w.Workspace); n != 1 || len(failed) != 0 || err != nil {
			t.Errorf("when the old one is over: %d, %v, %v", n, failed, err)
		}
		w.Skew.Advance(-24*time.Hour - time.Second)
		if n, err := w.s.Source(t.Context(), w.Workspace, "gh"); err != nil || n.OldUntil != nil {
			t.Errorf("the old one is not cleared: %v, %v", n.OldUntil, err)
		}
		if n, failed, err := w.s.Reseal(t.Context(), w.Workspace); n != 0 || len(failed) != 0 || err != nil {
			t.Errorf("once more: %d, %v, %v", n, failed, err)
		}
	})
}

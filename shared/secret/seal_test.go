package secret_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

func TestWhatIsSealedOpensInItsPlaceAlone(t *testing.T) {
	s := secret.NewSealer(keyFile(t))
	part := rapid.StringMatching(`[a-z.:]{0,6}`)
	places := rapid.Custom(func(t *rapid.T) secret.Place {
		return secret.Place{
			Workspace: db.Workspace(part.Draw(t, "workspace")), Table: part.Draw(t, "table"), Column: part.Draw(t, "column"), Row: part.Draw(t, "row"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		at, text := places.Draw(t, "at"), rapid.String().Draw(t, "text")
		sealed, err := s.Seal(t.Context(), at, secret.NewValue(text))
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.Open(t.Context(), at, sealed)
		if err != nil || v.Reveal() != text {
			t.Fatalf("it opens as %q, %v", v.Reveal(), err)
		}
		again, err := s.Seal(t.Context(), at, secret.NewValue(text))
		if err != nil || string(again) == string(sealed) {
			t.Fatalf("sealed twice it is the same: %v", err)
		}
		if len(text) > 8 && strings.Contains(string(sealed), text) {
			t.Fatal("the text stands in what is sealed")
		}
		if other := places.Draw(t, "other"); other != at {
			mustNotOpen(t, s, other, sealed, text)
		}
		if cut := rapid.IntRange(0, len(sealed)-1).Draw(t, "cut"); true {
			mustNotOpen(t, s, at, sealed[:cut], text)
			mustNotOpen(t, s, at, append(sealed[:cut:cut], sealed[cut+1:]...), text)
		}
		mustNotOpen(t, s, at, append(sealed[:len(sealed):len(sealed)], 0), text)
	})
}

func mustNotOpen(t rapid.TB, s *secret.Sealer, at secret.Place, sealed []byte, text string) {
	t.Helper()
	v, err := s.Open(context.Background(), at, sealed)
	switch {
	case !errors.Is(err, secret.ErrDamaged) && !errors.Is(err, secret.ErrNoKey):
		t.Fatalf("it opens, or fails with another error: %v", err)
	case v.Reveal() != "" || len(text) > 3 && strings.Contains(strings.ReplaceAll(err.Error(), at.String(), ""), text):
		t.Fatalf("the failure gives the text: %v", err)
	}
}

func TestEachBitCounts(t *testing.T) {
	s := secret.NewSealer(keyFile(t))
	sealed, err := s.Seal(t.Context(), somewhere, secret.NewValue("hunter2 is the text"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(sealed) * 8 {
		sealed[i/8] ^= 1 << (i % 8)
		mustNotOpen(t, s, somewhere, sealed, "hunter2 is the text")
		sealed[i/8] ^= 1 << (i % 8)
	}
	if _, err := s.Open(t.Context(), somewhere, sealed); err != nil {
		t.Errorf("with all bits back: %v", err)
	}
}

func TestSwappedRowsFieldsAndWorkspaces(t *testing.T) {
	s := secret.NewSealer(keyFile(t))
	sealed, err := s.Seal(t.Context(), somewhere, secret.NewValue("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*secret.Place){
		"workspace":       func(p *secret.Place) { p.Workspace = "0190d0a8-0000-7000-8000-000000000002" },
		"table":           func(p *secret.Place) { p.Table = "webhook_sources" },
		"column":          func(p *secret.Place) { p.Column = "secret" },
		"row":             func(p *secret.Place) { p.Row = "gitlab" },
		"border of parts": func(p *secret.Place) { p.Table, p.Column = "secretss", "ealed" },
	} {
		at := somewhere
		change(&at)
		if _, err := s.Open(t.Context(), at, sealed); !errors.Is(err, secret.ErrDamaged) {
			t.Errorf("another %s: %v", what, err)
		}
	}
	at := somewhere
	at.Workspace = db.Workspace(strings.ToUpper(string(at.Workspace)))
	if v, err := s.Open(t.Context(), at, sealed); err != nil || v.Reveal() != "hunter2" {
		t.Errorf("the same workspace in capitals: %v", err)
	}
}

func TestWithoutAKeeper(t *testing.T) {
	sealed, err := secret.NewSealer(keyFile(t)).Seal(t.Context(), somewhere, secret.NewValue("x"))
	if err != nil {
		t.Fatal(err)
	}
	s := secret.NewSealer(nil)
	if _, err := s.Seal(t.Context(), somewhere, secret.NewValue("x")); !errors.Is(err, secret.ErrNoKey) {
		t.Errorf("seal: %v", err)
	}
	if _, err := s.Open(t.Context(), somewhere, sealed); !errors.Is(err, secret.ErrNoKey) {
		t.Errorf("open: %v", err)
	}
}

// An invalid data key must not open anything, whichever keeper returns it.
type keeperOf struct {
	secret.Keeper
	unwrapped []byte
}

func (k keeperOf) Unwrap(context.Context, string, []byte, secret.Place) ([]byte, error) {
	return k.unwrapped, nil
}

func TestADataKeyOfAnotherSize(t *testing.T) {
	keys := keyFile(t)
	sealed, err := secret.NewSealer(keys).Seal(t.Context(), somewhere, secret.NewValue("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 16, 31, 32, 33} {
		_, err := secret.NewSealer(keeperOf{keys, make([]byte, size)}).Open(t.Context(), somewhere, sealed)
		if !errors.Is(err, secret.ErrDamaged) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestKeyOf(t *testing.T) {
	keys := keyFile(t)
	sealed, err := secret.NewSealer(keys).Seal(t.Context(), somewhere, secret.NewValue("x"))
	if err != nil {
		t.Fatal(err)
	}
	current, err := keys.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if id, err := secret.KeyOf(sealed); id != current || err != nil {
		t.Errorf("%q, %v, want %q", id, err, current)
	}
	for _, bad := range [][]byte{nil, {}, {0}, {2, 0, 1, 'x', 0, 0}, {1, 0, 0, 0, 0}, {1, 0, 9, 'x'}, {1, 255, 255}} {
		if _, err := secret.KeyOf(bad); !errors.Is(err, secret.ErrDamaged) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	s := secret.NewSealer(keyFile(f))
	sealed, err := s.Seal(f.Context(), somewhere, secret.NewValue("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte{1, 0, 1, 'x', 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if string(b) != string(sealed) {
			mustNotOpen(t, s, somewhere, b, "x")
		}
	})
}

package auth_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

func TestEachWorkspaceHasItsOwnKey(t *testing.T) {
	reads := atomic.Int32{}
	master := func(context.Context) ([]byte, error) {
		reads.Add(1)
		return bytes.Repeat([]byte{7}, 32), nil
	}
	keys, others := &auth.DerivedKeys{Master: master}, &auth.DerivedKeys{Master: master}
	seen := map[string]bool{}
	for _, ws := range []db.Workspace{"a", "b", "a"} {
		first, err1 := keys.AgentKey(t.Context(), ws)
		second, err2 := others.AgentKey(t.Context(), ws)
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(first, second) || len(first) < 32 {
			t.Errorf("the keys of workspace %s in two processes: %x and %x, %v", ws, first, second, err)
		}
		seen[string(first)] = true
	}
	if len(seen) != 2 || reads.Load() != 2 {
		t.Errorf("%d keys of two workspaces, and the master key was read %d times by two processes", len(seen), reads.Load())
	}
}

func TestTheMasterKeyIsAskedForAgain(t *testing.T) {
	away := errors.New("away")
	answers := []struct {
		key []byte
		err error
	}{{nil, away}, {make([]byte, 31), nil}, {make([]byte, 32), nil}}
	keys := &auth.DerivedKeys{Master: func(context.Context) ([]byte, error) {
		next := answers[0]
		answers = answers[1:]
		return next.key, next.err
	}}
	if _, err := keys.AgentKey(t.Context(), "a"); !errors.Is(err, away) {
		t.Errorf("while it can't be read: %v", err)
	}
	if _, err := keys.AgentKey(t.Context(), "a"); err == nil {
		t.Error("a short key is taken")
	}
	if _, err := keys.AgentKey(t.Context(), "a"); err != nil {
		t.Errorf("once it can be read: %v", err)
	}
}

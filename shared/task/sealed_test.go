package task_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// away is a key service that can't be reached.
type away struct{ secret.Keeper }

func (away) Wrap(context.Context, []byte, secret.Place) (string, []byte, error) {
	return "", nil, secret.ErrUnavailable
}

// TestACallWaitsForTheKeyOfItsSecrets: a call whose task has a secret in its input creates none that is
// not encrypted. The key service's absence is not a fault of the skill.
func TestACallWaitsForTheKeyOfItsSecrets(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ready := func(keeper secret.Keeper, input string) (skill.Call, error) {
			t.Helper()
			secrets, err1 := secret.New(w.DB, keeper)
			all, err2 := task.Skills(w.s, secrets)
			set, err3 := skill.NewSet(all...)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			k, _ := set.Find(task.CreateSkill)
			return k.Ready(t.Context(), time.Minute, skill.Call{Workspace: w.Workspace, Arguments: []byte(`{"title":"x","inputContext":` + input + `}`)})
		}
		const telling, plain = `{"password":"hunter2"}`, `{"n":1}`
		for name, c := range map[string]struct {
			keeper secret.Keeper
			input  string
			class  skill.Class // empty: the call is ready
		}{
			"the key service is away":            {away{}, telling, skill.RateLimit},
			"there is no key":                    {nil, telling, skill.Ours},
			"there is a key":                     {secret.NewKeyFile(filepath.Join(t.TempDir(), "key")), telling, ""},
			"no secret, no key":                  {nil, plain, ""},
			"no secret, the key service is away": {away{}, plain, ""},
		} {
			_, err := ready(c.keeper, c.input)
			refusal, refused := errors.AsType[*skill.RefusalError](err)
			switch {
			case c.class == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.class != "" && (!refused || refusal.Class != c.class || strings.Contains(err.Error(), "hunter2")):
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

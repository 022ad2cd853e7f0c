package skill_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestTheDatabaseRefusesWhatNoCodeWrites(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		good := func() []any {
			return []any{"one", "http", "d", `{"type":"object"}`, `{}`, "both", false, false, nil, true, nil, nil, false, 1, "me"}
		}
		put := func(args []any) error {
			_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Bad, append([]any{ids()}, args...)...)
			return err
		}
		if err := put(good()); err != nil {
			t.Fatalf("a sound row: %v", err)
		}
		const name, kind, description, parameters, config, scope, approval, serial, seconds, enabled, by, reason, at, version, creator = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
		for what, change := range map[string]map[int]any{
			"no name":                         {name: ""},
			"a name with a dot":               {name: "on.e"},
			"a name that begins with a digit": {name: "1one"},
			"a name that begins with a dash":  {name: "-one"},
			"a name of other letters":         {name: "öne"},
			"a long name":                     {name: strings.Repeat("a", 65)},
			"another kind":                    {kind: "magic"},
			"no description":                  {description: nil},
			"an empty description":            {description: ""},
			"a long description":              {description: strings.Repeat("x", 4001)},
			"no parameters":                   {parameters: nil},
			"long parameters":                 {parameters: strings.Repeat(" ", 32769)},
			"no config":                       {config: nil},
			"a long config":                   {config: `{"a":"` + strings.Repeat("x", 32768) + `"}`},
			"another scope":                   {scope: "all"},
			"no scope":                        {scope: nil},
			"no word on approval":             {approval: nil},
			"no word on serial":               {serial: nil},
			"no time":                         {seconds: 0},
			"too much time":                   {seconds: 901},
			"enabled by somebody":             {by: "human", at: true},
			"enabled with a reason":           {reason: "x"},
			"disabled by nobody":              {enabled: false, at: true},
			"disabled at no time":             {enabled: false, by: "human"},
			"disabled by another":             {enabled: false, by: "robot", at: true},
			"a long reason":                   {enabled: false, by: "human", at: true, reason: strings.Repeat("x", 501)},
			"version 0":                       {version: 0},
			"no creator":                      {creator: ""},
			"a built-in skill with a text":    {kind: "builtin"},
		} {
			row := good()
			row[name] = "two"
			for i, v := range change {
				row[i] = v
			}
			if err := put(row); !errors.Is(err, db.ErrCheck) {
				t.Errorf("%s: %v", what, err)
			}
		}
		again := good()
		if err := put(again); !errors.Is(err, db.ErrUnique) {
			t.Errorf("the same name twice: %v", err)
		}
		if err := put([]any{"two", "builtin", nil, nil, nil, nil, nil, nil, nil, true, nil, nil, false, 1, "me"}); err != nil {
			t.Errorf("a built-in skill's row: %v", err)
		}
	})
}

// TestAWorkspaceMayHaveSoMany: the count waits for concurrent registrations.
func TestAWorkspaceMayHaveSoMany(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var b db.Batch
		for i := range skill.MaxSkills - 1 {
			b.Exec(w.q.Bad, ids(), fmt.Sprintf("s%d", i), "lambda", "d", `{"type":"object"}`, `{"good":true}`, "both", false, false, nil, true, nil, nil, false, 1, "me")
		}
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			if _, err := w.Create(ctx, tx, definition("last")); err != nil {
				return err
			}
			beside, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if w.DB.Tx(beside, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.Create(ctx, tx, definition("beside_it"))
				return err
			}) == nil {
				t.Error("another was made that did not count the last one")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.tryCreate(t, definition("one_more")); !errors.Is(err, skill.ErrFull) || w.rows(t) != skill.MaxSkills {
			t.Errorf("one more: %v, then %d rows", err, w.rows(t))
		}
		if names := w.usable(t, trace.Operate); len(names) != skill.MaxSkills+2 {
			t.Errorf("%d can be used", len(names))
		}
		// The rows of built-in skills come on top, and none is overlooked.
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.Disable(ctx, tx, w.Workspace, "speak", skill.Human, "")
			return err
		})
		if names := w.usable(t, trace.Chat); err != nil || slices.Contains(names, "speak") || len(names) != skill.MaxSkills {
			t.Errorf("with a disabled built-in skill %d can be used, that one too: %v (%v)", len(names), slices.Contains(names, "speak"), err)
		}
	})
}

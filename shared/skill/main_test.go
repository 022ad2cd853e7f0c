package skill_test

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// named returns a skill without parameters.
func named(name string) skill.Skill {
	return skill.Skill{Name: name, Parameters: []byte(`{"type": "object"}`)}
}

// newSet returns a set of skills with different names.
func newSet(t testing.TB, skills ...skill.Skill) *skill.Set {
	t.Helper()
	s, err := skill.NewSet(skills...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withSchema returns the only skill of a set.
func withSchema(t testing.TB, schema string) *skill.Skill {
	t.Helper()
	set := newSet(t, skill.Skill{Name: "it", Parameters: []byte(schema), Run: nothing})
	if err := set.Sound(); err != nil {
		t.Fatal(err)
	}
	k, _ := set.Find("it")
	return k
}

func nothing(context.Context, lane.Tx, skill.Call) (any, error) { return nil, nil }

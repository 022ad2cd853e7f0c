package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// use runs a skill as the agent. It returns the result as JSON, and whether it is untrusted text.
func (w world) use(t testing.TB, name, arguments string) (out string, outside bool, err error) {
	t.Helper()
	all, err := memory.Skills(w.s)
	if err != nil {
		t.Fatal(err)
	}
	set, err := skill.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	k, _ := set.Find(name)
	call := skill.Call{Workspace: w.Workspace, Agent: agent, Arguments: []byte(arguments)}
	if v := k.Check(t.Context(), call.Arguments); len(v) > 0 {
		t.Fatal(v)
	}
	err = w.in(t.Context(), lane.Memory(agent), func(ctx context.Context, tx lane.Tx) error {
		value, err := k.Run(ctx, tx, call)
		_, outside = value.(skill.Untrusted)
		raw, _ := json.Marshal(value)
		out = string(raw)
		return err
	})
	return out, outside, err
}

func TestMemoriesAreFoundByTheirWords(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i, content := range []string{"Invoices go out on Mondays", "100% of invoices are paid", "An_underscore", `A back\slash`} {
			w.save(t, memory.Memory{Agent: agent, Category: []string{"fact", "count"}[i%2], Content: content, Importance: 5})
		}
		for words, want := range map[string]int{"INVOICES": 2, "100% inv": 1, "%": 0, "_": 0, `\`: 0, "nothing": 0, "": 4} {
			out, outside, err := w.use(t, "search_memory", fmt.Sprintf(`{"q": %q}`, words))
			if n := strings.Count(out, `"memoryId"`); err != nil || n != want || outside != (want > 0) {
				t.Errorf("%q finds %d, from outside: %v, %v", words, n, outside, err)
			}
		}
		if out, _, _ := w.use(t, "search_memory", `{"category": "count", "limit": 1}`); strings.Count(out, `"memoryId"`) != 1 || !strings.Contains(out, `back`) {
			t.Errorf("the newest of a category is %s", out)
		}
	})
}

func TestAMemoryIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id, _ := w.save(t, memory.Memory{Agent: agent, Category: "fact", Content: "wrong", Importance: 5})
		if _, _, err := w.use(t, "forget_memory", `{"memoryId": "`+id+`"}`); err != nil {
			t.Fatal(err)
		}
		if got := w.contents(t); len(got) > 0 {
			t.Errorf("remembered %q", got)
		}
		_, _, err := w.use(t, "forget_memory", `{"memoryId": "`+id+`"}`)
		if _, refused := errors.AsType[*skill.RefusalError](err); !refused {
			t.Errorf("again: %v", err)
		}
		other, _ := w.save(t, memory.Memory{Agent: "another", Category: "fact", Content: "theirs", Importance: 5})
		_, _, err = w.use(t, "forget_memory", `{"memoryId": "`+other+`"}`)
		if _, refused := errors.AsType[*skill.RefusalError](err); !refused {
			t.Errorf("what another agent remembers: %v", err)
		}
		if m := w.get(t, other); m.Content != "theirs" {
			t.Errorf("another agent's memory is %+v", m)
		}
	})
}

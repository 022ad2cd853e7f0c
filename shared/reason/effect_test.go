package reason_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
)

// client sends requests and does not follow redirects.
type client struct{ http.Client }

func (c *client) DoOnce(r *http.Request) (*http.Response, error) { return c.Do(r) }

// rows returns skills of kind http, as a workspace registers them. The definitions give the name,
// the method and other fields.
func (w *world) rows(t testing.TB, url string, definitions ...skill.Definition) []skill.Skill {
	t.Helper()
	c := &client{}
	t.Cleanup(c.CloseIdleConnections)
	registry, err := skill.NewRegistry(w.DB, ids, set(t), map[skill.Kind]skill.Factory{skill.HTTP: remote.Kind(remote.Outbound{
		Client: c, Check: func(string) error { return nil },
		Expand: func(_ context.Context, _ db.Workspace, raw json.RawMessage) (json.RawMessage, error) { return raw, nil },
	})})
	if err != nil {
		t.Fatal(err)
	}
	var out []skill.Skill
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		for _, d := range definitions {
			d.Kind, d.Description, d.Enabled, d.CreatedBy = skill.HTTP, "Asks.", true, "local:owner"
			d.Config = fmt.Appendf(nil, `{"url": %q, "method": %q}`, url+"/"+d.Name, d.Config)
			if _, err := registry.Create(ctx, tx, d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	loaded, broken, err := registry.Load(t.Context(), w.Workspace, "op")
	if err != nil || len(broken) > 0 {
		t.Fatal(err, broken)
	}
	for _, k := range loaded.All() {
		out = append(out, *k)
	}
	return out
}

func defined(name, method string) skill.Definition {
	return skill.Definition{Name: name, Parameters: json.RawMessage(anything), Config: json.RawMessage(method)}
}

// TestLookingUpTwiceNeedsNobody: a run may read repeatedly, also with data from the first answer,
// even if nobody can approve calls. A call with an effect waits then.
func TestLookingUpTwiceNeedsNobody(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		asked := make(chan string, 10)
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			asked <- r.Method + " " + r.URL.Path
			_, _ = io.WriteString(rw, "seen")
		}))
		t.Cleanup(server.Close)
		skills := w.rows(t, server.URL, defined("find", "GET"), defined("look", "HEAD"), defined("post", "POST"))
		for name, limited := range map[string]bool{"an owner": false, "a member": true} {
			job := w.job(t, skills...)
			job.NoApprovals = limited
			q, out := w.runWaiting(t, job, llmtest.Call("find", `{"page": 1}`), llmtest.Call("look", `{}`), llmtest.Call("find", `{"page": 2}`),
				llmtest.Call("post", `{}`), llmtest.Say("done"))
			var got []string
			for range len(asked) {
				got = append(got, <-asked)
			}
			if want := []string{"GET /find", "HEAD /look", "GET /find"}; !slices.Equal(got, want) || out.Status != execution.Completed || out.Trust != execution.Untrusted {
				t.Errorf("%s: the server was asked for %q, want %q; the run is %+v", name, got, want, out)
			}
			if limited {
				if last := w.results(t, job)[3]; len(q.asked) != 0 || !last.IsError {
					t.Errorf("%s: asked for %+v, the last result is %+v", name, q.asked, last)
				}
			} else if len(q.asked) != 1 || q.asked[0].Skill.Name != "post" {
				t.Errorf("%s: asked for %+v", name, q.asked)
			}
		}
	})
}

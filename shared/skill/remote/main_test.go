package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	canary    = "canary/4711+x=&\"y"
	workspace = db.Workspace("0190c2d4-0000-7000-8000-000000000001")
)

var errForbidden = errors.New("a private address")

// outbound allows every host except forbidden.example. The secrets crm and crm_bearer exist.
func outbound(client remote.Client) remote.Outbound {
	return remote.Outbound{
		Client: client,
		Check: func(raw string) error {
			if strings.Contains(raw, "forbidden.example") {
				return errForbidden
			}
			return nil
		},
		Blocked: func(err error) bool { return errors.Is(err, errForbidden) },
		Expand:  expand,
	}
}

// expand does what shared/secret does, for two secrets.
func expand(_ context.Context, ws db.Workspace, raw json.RawMessage) (json.RawMessage, error) {
	secrets := map[string]string{"crm": canary, "crm_bearer": "Bearer " + canary, "broken": "a\r\nb: " + canary}
	var headers map[string]map[string]string
	if err := json.Unmarshal(raw, &headers); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, ref := range headers {
		value, ok := secrets[ref["$secret"]]
		if !ok || ws != workspace {
			return nil, errors.New("no secret " + ref["$secret"])
		}
		out[name] = value
	}
	return json.Marshal(out)
}

// once is a client without a guard.
type once struct{ *http.Transport }

func (c once) DoOnce(r *http.Request) (*http.Response, error) { return c.RoundTrip(r) }

func plain(t testing.TB) once {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return once{transport}
}

// serve answers with a handler and returns the address, which replaces {url} in configs.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// schema returns a schema that requires the parameters with these names.
func schema(names ...string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"type": "object", "required": names})
	return raw
}

// register builds a skill from a config.
func register(out remote.Outbound, config string, required ...string) (skill.Skill, error) {
	return remote.Kind(out)(skill.Definition{Name: "it", Kind: skill.HTTP, Config: json.RawMessage(config), Parameters: schema(required...)})
}

// made is register for a config that must be valid.
func made(t testing.TB, out remote.Outbound, config string, required ...string) skill.Skill {
	t.Helper()
	k, err := register(out, config, required...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func call(arguments string) skill.Call {
	return skill.Call{Workspace: workspace, Key: "run-1:2.1", Arguments: json.RawMessage(arguments)}
}

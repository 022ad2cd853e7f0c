package secret_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// vault is a resolver in memory that counts its calls.
type vault struct {
	texts map[string]string
	asked int
}

func (v *vault) Resolve(_ context.Context, _ db.Workspace, name string) (secret.Value, error) {
	v.asked++
	text, ok := v.texts[name]
	if !ok {
		return secret.Value{}, &secret.NotFoundError{Name: name}
	}
	return secret.NewValue(text), nil
}

func newVault() *vault {
	return &vault{texts: map[string]string{"a": "one", "b.c_d-e": `qu"ot\ed <ü>`, "long": strings.Repeat("x", secret.MaxValue)}}
}

const noWorkspace db.Workspace = ""

func TestReferencesAndTheirExpansion(t *testing.T) {
	for _, c := range []struct {
		raw   string
		names []string
		want  string // empty: unchanged
	}{
		{`{"$secret":"a"}`, []string{"a"}, `"one"`},
		{` { "$secret" : "a" } `, []string{"a"}, ` "one" `},
		{`{"\u0024secret":"\u0061"}`, []string{"a"}, `"one"`},
		{`{"headers":{"X":{"$secret":"a"},"Y":{"$secret":"b.c_d-e"}},"n":1.50}`, []string{"a", "b.c_d-e"},
			`{"headers":{"X":"one","Y":"qu\"ot\\ed <ü>"},"n":1.50}`},
		{`[{"$secret":"a"},{"$secret":"a"},[{"$secret":"a"}]]`, []string{"a"}, `["one","one",["one"]]`},
		{`{"after":{"$secret":"a"},"name":"x","$secret":"b"}`, []string{"a"}, `{"after":"one","name":"x","$secret":"b"}`},
		// No reference: more members, other types, the name as a text or a key.
		{`{"$secret":"a","x":1}`, nil, ""},
		{`{"x":1,"$secret":"a"}`, nil, ""},
		{`{"$secret":"a","$secret":"a"}`, nil, ""},
		{`{"$secret":1}`, nil, ""},
		{`{"$secret":null}`, nil, ""},
		{`{"$secret":["a"]}`, nil, ""},
		{`{"$secret":{"$secret":"a"}}`, []string{"a"}, `{"$secret":"one"}`},
		{`{"$Secret":"a"}`, nil, ""},
		{`"{\"$secret\":\"a\"}"`, nil, ""},
		{`{}`, nil, ""}, {`[]`, nil, ""}, {`"$secret"`, nil, ""}, {`1`, nil, ""}, {`null`, nil, ""},
	} {
		if names := references(json.RawMessage(c.raw)); !slices.Equal(names, c.names) {
			t.Errorf("%s refers to %q, want %q", c.raw, names, c.names)
		}
		if c.want == "" {
			c.want = c.raw
		}
		vault := newVault()
		v, err := secret.Expand(t.Context(), noWorkspace, json.RawMessage(c.raw), vault)
		if err != nil || v.Reveal() != c.want {
			t.Errorf("%s becomes %s, %v, want %s", c.raw, v.Reveal(), err, c.want)
		}
		if vault.asked != len(c.names) {
			t.Errorf("%s: asked %d times", c.raw, vault.asked)
		}
	}
}

func TestExpansionsThatFail(t *testing.T) {
	many := make([]string, 65)
	vault := newVault()
	for i := range many {
		name := fmt.Sprint("n", i)
		vault.texts[name] = "x"
		many[i] = `{"$secret":"` + name + `"}`
	}
	large := strings.TrimSuffix(strings.Repeat(`{"$secret":"long"},`, 17), ",")
	for raw, want := range map[string]error{
		`{"x":{"$secret":"nope"}}`:             secret.ErrNotFound,
		`{"x":{"$secret":"no name"}}`:          secret.ErrName,
		`{"x":{"$secret":""}}`:                 secret.ErrName,
		`{"x":`:                                secret.ErrConfig,
		``:                                     secret.ErrConfig,
		`[` + strings.Join(many, ",") + `]`:    secret.ErrConfig,
		`[` + large + `]`:                      secret.ErrConfig,
		`"` + strings.Repeat("x", 1<<20) + `"`: secret.ErrConfig,
	} {
		v, err := secret.Expand(t.Context(), noWorkspace, json.RawMessage(raw), vault)
		if !errors.Is(err, want) || v.Reveal() != "" {
			t.Errorf("%.60s: %v, want %v", raw, err, want)
		}
	}
	_, err := secret.Expand(t.Context(), noWorkspace, json.RawMessage(`{"url":"https://canary","x":{"$secret":"nope"}}`), vault)
	if nf, ok := errors.AsType[*secret.NotFoundError](err); !ok || nf.Name != "nope" || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}

func TestExpandFromTheStore(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.put(t, "github", "tr0ub4dor")
		r := redact.New(nil)
		ctx := redact.With(t.Context(), r)
		v, err := secret.Expand(ctx, w.Workspace, json.RawMessage(`{"headers":{"X-Key":{"$secret":"github"}}}`), w.Store)
		if err != nil || v.Reveal() != `{"headers":{"X-Key":"tr0ub4dor"}}` {
			t.Errorf("%v", err)
		}
		if got := r.Text("the server said tr0ub4dor"); strings.Contains(got, "tr0ub4dor") {
			t.Error(got)
		}
	})
}

// The result of Expand is valid JSON without references. Expand resolves only what References
// lists, and leaves JSON without references unchanged.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{
		`{"$secret":"a"}`, `[{"$secret":"a"},{"$secret":"b.c_d-e"}]`, `{"x":{"$secret":"nope"}}`, `{"$secret":"a","x":1}`, `{"\u0024secret":"a"}`,
		`{"$secret":{"$secret":"a"}}`, `[[[]]]`, `{"a":{"b":[1,2.5e3,"\ud800",null,true]}}`, `"\\\""`, ` 1 `, `{`, `{"":""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		names := references(raw)
		v, err := secret.Expand(t.Context(), noWorkspace, raw, newVault())
		switch {
		case err != nil:
			if v.Reveal() != "" {
				t.Errorf("%q: both a value and %v", raw, err)
			}
			if json.Valid(raw) && len(names) == 0 {
				t.Errorf("%q has no references: %v", raw, err)
			}
		case !json.Valid([]byte(v.Reveal())):
			t.Errorf("%q becomes %q", raw, v.Reveal())
		case len(names) == 0 && v.Reveal() != string(raw):
			t.Errorf("%q has no references and becomes %q", raw, v.Reveal())
		}
	})
}

// references lists the secrets that a JSON value refers to, each once, in order. It includes
// invalid names; see [secret.ValidName].
func references(raw json.RawMessage) []string {
	if !json.Valid(raw) {
		return nil
	}
	var names []string
	sc := jsonscan.New(string(raw))
	for t, ok := sc.Next(); ok; t, ok = sc.Next() {
		if t.Kind != '{' {
			continue
		}
		if name, ok := sc.Sole(t, redact.Reference); ok && !slices.Contains(names, sc.Decoded(name)) {
			names = append(names, sc.Decoded(name))
		}
	}
	return names
}

package skill_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// fields returns the fields that an [skill.InvalidError] names.
func fields(t testing.TB, err error) (names []string) {
	t.Helper()
	invalid, ok := errors.AsType[*skill.InvalidError](err)
	if !ok {
		t.Errorf("got %v, want it invalid", err)
		return nil
	}
	for _, f := range invalid.Fields {
		if f.Problem == "" {
			t.Errorf("%s: no word on what is wrong", f.Field)
		}
		names = append(names, f.Field)
	}
	slices.Sort(names)
	return names
}

func TestRegistrationRefuses(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	for what, c := range map[string]struct {
		change func(*skill.Definition)
		field  string
	}{
		"no name":                 {func(d *skill.Definition) { d.Name = "" }, "name"},
		"a name with a dot":       {func(d *skill.Definition) { d.Name = "a.b" }, "name"},
		"a name with an umlaut":   {func(d *skill.Definition) { d.Name = "äsk" }, "name"},
		"a name like an id":       {func(d *skill.Definition) { d.Name = "a1a203f9-9c2d-7078-8578-3917691c92fa" }, "name"},
		"a name with a line feed": {func(d *skill.Definition) { d.Name = "ask\n" }, "name"},
		"a name with a digit":     {func(d *skill.Definition) { d.Name = "1ask" }, "name"},
		"a long name":             {func(d *skill.Definition) { d.Name = strings.Repeat("a", 65) }, "name"},
		"no description":          {func(d *skill.Definition) { d.Description = "" }, "description"},
		"a long description":      {func(d *skill.Definition) { d.Description = strings.Repeat("ö", 4001) }, "description"},
		"another kind":            {func(d *skill.Definition) { d.Kind = "magic" }, "kind"},
		"a kind not done here":    {func(d *skill.Definition) { d.Kind = skill.MCP }, "kind"},
		"another scope":           {func(d *skill.Definition) { d.Scope = "all" }, "scope"},
		"time below nothing":      {func(d *skill.Definition) { d.Timeout = -time.Second }, "timeoutSeconds"},
		"parts of a second":       {func(d *skill.Definition) { d.Timeout = 1500 * time.Millisecond }, "timeoutSeconds"},
		"too much time":           {func(d *skill.Definition) { d.Timeout = 901 * time.Second }, "timeoutSeconds"},
		"no config":               {func(d *skill.Definition) { d.Config = nil }, "config"},
		"null for a config":       {func(d *skill.Definition) { d.Config = []byte(`null`) }, "config"},
		"a list for a config":     {func(d *skill.Definition) { d.Config = []byte(`[]`) }, "config"},
		"an unknown field":        {func(d *skill.Definition) { d.Config = []byte(`{"good":true,"better":1}`) }, "config.better"},
		"a field in another case": {func(d *skill.Definition) { d.Config = []byte(`{"Good":true}`) }, "config.Good"},
		"a field of another type": {func(d *skill.Definition) { d.Config = []byte(`{"good":"canary"}`) }, "config.good"},
		"what the kind refuses":   {func(d *skill.Definition) { d.Config = []byte(`{"good":false}`) }, "config.good"},
		"a large config":          {func(d *skill.Definition) { d.Config = fmt.Appendf(nil, `{"url":%q}`, strings.Repeat("x", 16<<10)) }, "config"},
		"parameters of a text":    {func(d *skill.Definition) { d.Parameters = []byte(`{"type":"string"}`) }, "parameters"},
		"parameters of two types": {func(d *skill.Definition) { d.Parameters = []byte(`{"type":["object","null"]}`) }, "parameters"},
		"parameters of no type":   {func(d *skill.Definition) { d.Parameters = []byte(`{"properties":{}}`) }, "parameters"},
		"parameters null":         {func(d *skill.Definition) { d.Parameters = []byte(`null`) }, "parameters"},
		"parameters true":         {func(d *skill.Definition) { d.Parameters = []byte(`true`) }, "parameters"},
		"no JSON":                 {func(d *skill.Definition) { d.Parameters = []byte(`{"type":"object"`) }, "parameters"},
		"two schemas":             {func(d *skill.Definition) { d.Parameters = []byte(`{"type":"object"}{}`) }, "parameters"},
		"alternatives at the top": {func(d *skill.Definition) { d.Parameters = []byte(`{"type":"object","oneOf":[{}]}`) }, "parameters"},
		"a reference at the top": {func(d *skill.Definition) {
			d.Parameters = []byte(`{"type":"object","$ref":"#/$defs/a","$defs":{"a":{}}}`)
		}, "parameters"},
		"a parameter with a space": {func(d *skill.Definition) { d.Parameters = []byte(`{"type":"object","properties":{"a b":{}}}`) }, "parameters"},
		"a list of properties":     {func(d *skill.Definition) { d.Parameters = []byte(`{"type":"object","properties":[]}`) }, "parameters"},
		"a type there is not": {func(d *skill.Definition) {
			d.Parameters = []byte(`{"type":"object","properties":{"a":{"type":"canary"}}}`)
		}, "parameters.properties.a.type"},
		"a pattern that is none": {func(d *skill.Definition) {
			d.Parameters = []byte(`{"type":"object","properties":{"a":{"pattern":"(canary"}}}`)
		}, "parameters.properties.a.pattern"},
		"a schema from elsewhere": {func(d *skill.Definition) {
			d.Parameters = []byte(`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1/canary"}}}`)
		}, "parameters.properties.a.$ref"},
		"a schema from a file": {func(d *skill.Definition) {
			d.Parameters = []byte(`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`)
		}, "parameters.properties.a.$ref"},
		"a keyword that is not supported": {func(d *skill.Definition) {
			d.Parameters = []byte(`{"type":"object","properties":{"a":{"type":"object","unevaluatedProperties":false}}}`)
		}, "parameters.properties.a.unevaluatedProperties"},
		"alternatives of alternatives": {func(d *skill.Definition) { d.Parameters = bomb(9) }, "parameters"},
		"recursion that branches": {func(d *skill.Definition) {
			d.Parameters = []byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"allOf":[{"items":{"$ref":"#/$defs/n"}},{"items":{"$ref":"#/$defs/n"}}]}}}`)
		}, "parameters"},
		"a pattern that takes long": {func(d *skill.Definition) {
			d.Parameters = []byte(`{"type":"object","properties":{"a":{"pattern":"((((a{1,10}){1,10}){1,10}b){0,9}){0,9}$"}}}`)
		}, "parameters.properties.a.pattern"},
		"large parameters": {func(d *skill.Definition) {
			d.Parameters = fmt.Appendf(nil, `{"type":"object","title":%q}`, strings.Repeat("x", 16<<10))
		}, "parameters"},
	} {
		t.Run(what, func(t *testing.T) {
			d := definition("ask")
			c.change(&d)
			_, err := w.tryCreate(t, d)
			if got := fields(t, err); !slices.Equal(got, []string{c.field}) {
				t.Errorf("wrong is %q, want %s", got, c.field)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error repeats what was refused: %v", err)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := w.tryCreate(t, skill.Definition{Kind: "magic", Scope: "all", Timeout: -1, Parameters: []byte(`[]`)})
		if got := fields(t, err); !slices.Equal(got, []string{"description", "kind", "name", "parameters", "scope", "timeoutSeconds"}) {
			t.Errorf("wrong is %q", got)
		}
	})
	if n := w.rows(t); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestRegistrationTakesTheLimits(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := definition("a" + strings.Repeat("_9", 31) + "z")
		d.Description, d.Timeout = strings.Repeat("ö", 4000), 900*time.Second
		schema := `{"type":"object","title":"` + strings.Repeat("x", skill.MaxParameters-len(`{"type":"object","title":""}`)) + `"}`
		d.Parameters = []byte(schema)
		d.Config = []byte(`{"good":true,"url":"` + strings.Repeat(":,", (skill.MaxConfig-len(`{"good":true,"url":""}`))/2) + `"}`)
		if got := w.create(t, d); string(got.Parameters) != schema || got.Timeout != 900*time.Second || got.Description != d.Description {
			t.Errorf("it came back otherwise")
		}
		headers := make([]string, 0, 1600) // jsonb stores such data in a longer form
		for i := range 1600 {
			headers = append(headers, fmt.Sprintf(`"%x":""`, i))
		}
		many := definition("many")
		many.Config = []byte(`{"good":true,"headers":{` + strings.Join(headers, ",") + `}}`)
		w.create(t, many)
		least := skill.Definition{Name: "a", Kind: skill.HTTP, Description: "d", Config: []byte(`{"good":true}`), Enabled: true, CreatedBy: "x"}
		got := w.create(t, least)
		if got.Scope != skill.Internal || string(got.Parameters) != `{"type":"object","properties":{},"additionalProperties":false}` {
			t.Errorf("with defaults it is %+v, %s", got, got.Parameters)
		}
	})
}

func TestAPatchIsHeldToTheSameRules(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		before := w.create(t, definition("ask"))
		for field, p := range map[string]skill.Patch{
			"description":    {Description: ptr("")},
			"parameters":     {Parameters: []byte(`{}`)},
			"config.good":    {Config: []byte(`{"good":false}`)},
			"scope":          {Scope: ptr(skill.Scope("all"))},
			"timeoutSeconds": {Timeout: ptr(time.Hour)},
		} {
			_, err := w.patch(t, "ask", p)
			if got := fields(t, err); !slices.Equal(got, []string{field}) {
				t.Errorf("wrong is %q, want %s", got, field)
			}
		}
		_, err := w.patch(t, "look", skill.Patch{Scope: ptr(skill.Scope("all")), Timeout: ptr(time.Hour)})
		if got := fields(t, err); !slices.Equal(got, []string{"scope", "timeoutSeconds"}) {
			t.Errorf("of a built-in skill wrong is %q", got)
		}
		if after := w.get(t, "ask"); after.Version != before.Version {
			t.Errorf("it was changed: %+v", after)
		}
	})
}

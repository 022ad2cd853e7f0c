package schema

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func read(t testing.TB, raw string) any {
	t.Helper()
	v, err := Decode([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compiled(t testing.TB, raw string) *Schema {
	t.Helper()
	s, err := Compile([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unbounded compiles a schema that Compile refuses because it takes too long.
func unbounded(t testing.TB, raw string) *Schema {
	t.Helper()
	c := newCompiler(read(t, raw), true)
	s := &Schema{c.node("", c.doc, 0)}
	if c.err != nil {
		t.Fatal(c.err)
	}
	return s
}

// alternatives returns nested alternatives. Each level has four references to the next.
func alternatives(levels int) string {
	defs := fmt.Sprintf(`"a%d":{"type":"integer"}`, levels)
	for i := range levels {
		next := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		defs += fmt.Sprintf(`,"a%d":{"anyOf":[{"allOf":[%s,%s]},{"allOf":[%s,%s]}]}`, i, next, next, next, next)
	}
	return `{"$ref":"#/$defs/a0","$defs":{` + defs + `}}`
}

// A check stops at its limit with little memory, even for a schema that Compile would refuse, and
// when its context ends.
func TestChecksAreBounded(t *testing.T) {
	long := strings.Repeat("a", 100_000)
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"x":1.5},`, 100_000), ",") + "]"
	var distinct []string
	for i := range 100_000 {
		distinct = append(distinct, fmt.Sprintf(`{"x":%d.5}`, i))
	}
	doubling := `{"$ref":"#/$defs/n","$defs":{"n":{"allOf":[{"items":{"$ref":"#/$defs/n"}},{"items":{"$ref":"#/$defs/n"}}]}}}`
	for name, c := range map[string]struct {
		schema *Schema
		value  string
	}{
		"alternatives":          {unbounded(t, alternatives(10)), `"x"`},
		"more alternatives":     {unbounded(t, alternatives(14)), `"x"`},
		"doubling":              {unbounded(t, doubling), strings.Repeat("[", 60) + strings.Repeat("]", 60)},
		"a loop":                {unbounded(t, `{"$ref":"#"}`), `1`},
		"a long loop":           {unbounded(t, `{"allOf":[{"anyOf":[{"$ref":"#"}]}]}`), `1`},
		"a pattern":             {compiled(t, `{"pattern":"(((a{1,10}){1,10}){1,10})$"}`), `"` + long + `b"`},
		"a literal pattern":     {compiled(t, `{"pattern":"[ab]`+long[:1000]+`c"}`), `"` + long[:20_000] + `"`},
		"patterns of names":     {compiled(t, `{"patternProperties":{"(((a{1,10}){1,10}){1,10})$":{}}}`), `{"` + long + `b":1}`},
		"many values":           {compiled(t, `{"items":{"type":"integer"}}`), many},
		"comparisons":           {compiled(t, `{"uniqueItems":true}`), "[" + strings.Join(distinct, ",") + "]"},
		"numbers of any size":   {compiled(t, `{"uniqueItems":true}`), "[" + list(14_000, "%d.5e-990") + "]"},
		"numbers beyond all":    {compiled(t, `{"items":{"type":"integer"}}`), "[" + list(14_000, "%d.5e-9999999999999999999") + "]"},
		"multiples of any size": {compiled(t, `{"items":{"multipleOf":3e-999}}`), "[" + list(10_000, "%d.5e990") + "]"},
		"values of enumeration": {compiled(t, `{"enum":[1]}`), many},
		"a format":              {compiled(t, `{"format":"uri"}`), `"http://x/` + strings.Repeat(long, 20) + `"`},
		"a pattern of classes":  {compiled(t, `{"format":"regex"}`), `"[` + strings.Repeat(`\\pL`, 50_000) + `]"`},
		"a pattern of ranges":   {compiled(t, `{"format":"regex"}`), `"(?s-i:)(?i)[` + strings.Repeat(`B-\\x{1e942}`, 1_000) + `]"`},
		"a pattern of letters":  {compiled(t, `{"format":"regex"}`), `"(?i)[` + strings.Repeat(`B-𞥂`, 1_000) + `]"`},
		"long names":            {compiled(t, `{"additionalProperties":{"type":"integer"}}`), `{"` + strings.Repeat(long, 101) + `":""}`},
	} {
		v := read(t, c.value)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.schema.Check(t.Context(), v)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrTooMuch) || used > 64<<20 {
			t.Errorf("%s: %v after %d MiB", name, err, used>>20)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := unbounded(t, alternatives(10)).Check(ended, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a check whose context has ended: %v", err)
	}
}

// The number of violations is limited.
func TestViolationsAreBounded(t *testing.T) {
	s := compiled(t, `{"items":{"type":"integer"}}`)
	wrong, err := s.Check(t.Context(), read(t, "["+strings.TrimSuffix(strings.Repeat(`"x",`, 2000), ",")+"]"))
	if err != nil || len(wrong) != MaxViolations {
		t.Errorf("%d violations, %v", len(wrong), err)
	}
}

// subsets returns schemas of which any subset may meet at one value, and names and patterns that
// each subset must be compared with.
func subsets(schemas, names int, properties, patterns string) string {
	var defs, list []string
	for i := range schemas {
		next := fmt.Sprintf(`{"$ref":"#/$defs/q%d"}`, i+1)
		defs = append(defs, fmt.Sprintf(`"q%d":{"properties":{"a":%s,"b":%s}}`, i, next, next))
	}
	defs[0] = `"q0":{"properties":{"a":{"$ref":"#/$defs/q0"},"b":{"allOf":[{"$ref":"#/$defs/q0"},{"$ref":"#/$defs/q1"}]}}}`
	defs = append(defs, fmt.Sprintf(`"q%d":{}`, schemas))
	for i := range names {
		list = append(list, fmt.Sprintf(`"n%d":{%s}`, i, properties))
	}
	wide := `"properties":{` + strings.Join(list, ",") + `}`
	if patterns != "" {
		list = nil
		for i := range names {
			list = append(list, fmt.Sprintf(`"%s%d":{}`, patterns, i))
		}
		wide += `,"patternProperties":{` + strings.Join(list, ",") + `}`
	}
	defs[0] = strings.TrimSuffix(defs[0], "}") + `,"allOf":[{` + wide + `}]}`
	return `{"$ref":"#/$defs/q0","$defs":{` + strings.Join(defs, ",") + `}}`
}

// kinds returns kinds of objects that contain each other, like the parts of a program.
func kinds(of, properties int) string {
	var defs, options []string
	for i := range of {
		props := []string{fmt.Sprintf(`"kind":{"const":"k%d"}`, i)}
		for j := range properties {
			props = append(props, fmt.Sprintf(`"p%d_%d":{"$ref":"#/$defs/any"}`, i, j))
		}
		defs = append(defs, fmt.Sprintf(`"k%d":{"type":"object","additionalProperties":false,"properties":{%s}}`, i, strings.Join(props, ",")))
		options = append(options, fmt.Sprintf(`{"$ref":"#/$defs/k%d"}`, i))
	}
	return `{"$ref":"#/$defs/any","$defs":{"any":{"oneOf":[` + strings.Join(options, ",") + `]},` + strings.Join(defs, ",") + `}}`
}

// list joins the format's text for each number.
func list(n int, format string) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return strings.Join(out, ",")
}

// Compile refuses schemas that may exceed the limit, and no others.
func TestCompileRefusesWhatMayTakeTooLong(t *testing.T) {
	tree := `{"type":"object","properties":{"left":{"$ref":"#/$defs/tree"},"right":{"$ref":"#/$defs/tree"},"sons":{"items":{"$ref":"#/$defs/tree"}}}}`
	options := strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/one"},`, 200), ",")
	for name, c := range map[string]struct {
		schema  string
		refused bool
	}{
		"alternatives":               {alternatives(10), true},
		"many alternatives":          {alternatives(200), true},
		"few alternatives":           {alternatives(4), false},
		"a loop":                     {`{"$ref":"#"}`, true},
		"a loop by way of others":    {`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}`, true},
		"a loop nobody asks for":     {`{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, true},
		"items twice":                {`{"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, true},
		"items and contains":         {`{"items":{"$ref":"#"},"contains":{"$ref":"#"}}`, true},
		"a name and its pattern":     {`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"^a":{"$ref":"#"}}}`, true},
		"two patterns of one name":   {`{"patternProperties":{"^a":{"$ref":"#"},"b$":{"$ref":"#"}}}`, true},
		"alternatives of properties": {`{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, true},
		"a tree":                     {`{"$ref":"#/$defs/tree","$defs":{"tree":` + tree + `}}`, false},
		"an expression":              {`{"anyOf":[{"type":"integer"},{"type":"array","items":{"$ref":"#"}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`, false},
		"names of their own":         {`{"oneOf":[{"properties":{"and":{"$ref":"#"}}},{"properties":{"or":{"$ref":"#"}}},{"properties":{"not":{"$ref":"#"}}}]}`, false},
		"a pattern beside a name":    {`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":{"$ref":"#"}}`, false},
		"subsets":                    {subsets(12, 700, ``, ``), true},
		"subsets and patterns":       {subsets(12, 400, `"type":"string"`, `^y`), true},
		"few subsets":                {subsets(4, 100, ``, `^x`), false},
		"names and patterns":         {`{"properties":{` + list(900, `"aaaaaaaaaaaaaaaa%d":{}`) + `},"patternProperties":{` + list(900, `"^c%d$":{}`) + `}}`, true},
		"a pattern of a long name":   {`{"properties":{"` + strings.Repeat("a", 30_000) + `":{}},"patternProperties":{"(a{1,30}){1,30}$":{}}}`, true},
		"a long name above many":     {`{"properties":{"` + strings.Repeat("a", 30_000) + `":{"allOf":[` + `true` + strings.Repeat(`,true`, 5000) + `]}}}`, true},
		"a long name of many":        {`{"dependentRequired":{"` + strings.Repeat("a", 30_000) + `":[` + list(4000, `"%d"`) + `]}}`, true},
		"many at once":               {`{"allOf":[` + `{}` + strings.Repeat(`,{}`, 20_000) + `]}`, true},
		"many required":              {`{"required":[` + list(9000, `"%d"`) + `]}`, false},
		"many properties":            {`{"properties":{` + list(1500, `"p%d":{"type":"string"}`) + `},"additionalProperties":{"type":"string"}}`, false},
		"kinds of objects":           {kinds(60, 15), false},
		"prefixes":                   {`{"allOf":[` + `{"contains":{}}` + strings.Repeat(`,{"contains":{}}`, 150) + `],"prefixItems":[` + `{}` + strings.Repeat(`,{}`, 15_000) + `]}`, true},
		"many options":               {`{"oneOf":[` + options + `],"$defs":{"one":{"type":"object","properties":{"a":{"type":"string"}}}}}`, false},
		"a pattern":                  {`{"pattern":"(a{1,100}){1,100}"}`, true},
		"patterns":                   {`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"(a{1,60}){1,60}"},`, 20), ",") + `]}`, true},
		"classes":                    {`{"pattern":"` + strings.Repeat(`\\p{L}`, 100) + `"}`, true},
		"many classes":               {`{"pattern":"[` + strings.Repeat(`\\pL`, 10_000) + `]"}`, true},
		"ranges without case":        {`{"pattern":"(?i)[` + strings.Repeat(`B-\\x{1e942}`, 1_000) + `]"}`, true},
		"few ranges without case":    {`{"pattern":"(?i)^[` + strings.Repeat(`B-\\x{1e942}`, 10) + `]$"}`, false},
		"ranges":                     {`{"pattern":"^(?:[` + strings.Repeat(`B-\\x{1e942}`, 1_000) + `])$"}`, false},
		"nesting":                    {strings.Repeat(`{"not":`, 300) + `true` + strings.Repeat(`}`, 300), true},
		"size":                       {`{"title":"` + strings.Repeat("x", MaxSize) + `"}`, true},
		"numbers of any size":        {`{"enum":[` + list(5_000, "%de-999") + `]}`, true},
		"many values":                {`{"enum":[` + list(7_000, "%d.5") + `]}`, false},
		"a number":                   {`{"minimum":1e9999999}`, true},
		"a long number":              {`{"enum":[1` + strings.Repeat("0", 2000) + `]}`, true},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Compile([]byte(c.schema))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; (err != nil) != c.refused || used > 64<<20 {
			t.Errorf("%s: %v after %d MiB", name, err, used>>20)
		}
	}
}

// Compile refuses an invalid schema and says where it is wrong.
func TestCompileSaysWhatIsWrong(t *testing.T) {
	for schema, want := range map[string]string{
		``:                                        "",
		`{} {}`:                                   "",
		`[]`:                                      "",
		`{"type":"text"}`:                         "/type",
		`{"type":[]}`:                             "/type",
		`{"type":["string","string"]}`:            "/type",
		`{"properties":[]}`:                       "/properties",
		`{"properties":{"a/b":{"type":1}}}`:       "/properties/a~1b/type",
		`{"items":[{}]}`:                          "/items",
		`{"allOf":[]}`:                            "/allOf",
		`{"anyOf":{}}`:                            "/anyOf",
		`{"oneOf":[1]}`:                           "/oneOf/0",
		`{"required":"a"}`:                        "/required",
		`{"required":[1]}`:                        "/required/0",
		`{"minLength":-1}`:                        "/minLength",
		`{"maxItems":1.5}`:                        "/maxItems",
		`{"minimum":"1"}`:                         "/minimum",
		`{"multipleOf":0}`:                        "/multipleOf",
		`{"exclusiveMinimum":true}`:               "/exclusiveMinimum",
		`{"uniqueItems":1}`:                       "/uniqueItems",
		`{"pattern":"("}`:                         "/pattern",
		`{"patternProperties":{"(":{}}}`:          "/patternProperties/(",
		`{"enum":1}`:                              "/enum",
		`{"format":1}`:                            "/format",
		`{"dependentRequired":{"a":"b"}}`:         "/dependentRequired/a",
		`{"$ref":1}`:                              "/$ref",
		`{"$ref":"#/$defs/a"}`:                    "/$ref",
		`{"$ref":"#/enum/01","enum":[1,{}]}`:      "/$ref",
		`{"$ref":"#a"}`:                           "/$ref",
		`{"$ref":"#/%"}`:                          "/$ref",
		`{"$defs":{"a":{"$id":"x"}}}`:             "/$defs/a/$id",
		`{"$ref":"#/x/y","x":{"y":{}}}`:           "none",
		`{"$ref":"#/x/y","x":{"$id":"z","y":{}}}`: "/$ref",
		`{"unevaluatedItems":false}`:              "/unevaluatedItems",
		`{"$schema":"http://json-schema.org/draft-04/schema#"}`:                                             "/$schema",
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`:                             "none",
		`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#","minimum":1}}}`: "/properties/a/$ref",
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"http://x/y","x-mine":{"type":1}}`: "none",
		`{"contentEncoding":"base64","default":1,"examples":[{"type":1}],"title":"t","$comment":"c"}`:       "none",
		`{"dependencies":{"a":["b"]}}`: "/dependencies",

		`{"$schema":"http://json-schema.org/draft-07/schema","$ref":"#/definitions/a","definitions":{"a":{"type":"null"}}}`:    "none",
		`{"$schema":"http://json-schema.org/draft-07/schema","properties":{"a":{},"b":{"$ref":"#/properties/a","title":"c"}}}`: "none",
	} {
		_, err := Compile([]byte(schema))
		got := "none"
		if wrong, ok := errors.AsType[*Error](err); ok {
			got = wrong.Path
		}
		if got != want {
			t.Errorf("%s: %v, want %q", schema, err, want)
		}
	}
}

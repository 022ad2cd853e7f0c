package demo

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// filler completes arguments with data of the situation.
type filler struct{ s situation }

// complete returns args with everything that the tool's schema requires.
func (f filler) complete(tool llm.Tool, args map[string]any) map[string]any {
	return f.fit(tool, parseSchema(tool.Parameters), args)
}

// repair returns the corrected arguments of a failed call. It uses the error message and a schema:
// the one in the message if there is one, otherwise the tool's. It replaces arguments that can't be
// parsed with fallback.
func (f filler) repair(tool llm.Tool, failed llm.Arguments, message string, fallback map[string]any) map[string]any {
	lines, sch := readError(cut(message, 16<<10))
	if sch == nil {
		sch = parseSchema(tool.Parameters)
	}
	args := decodeObject(string(failed))
	if args == nil {
		args = maps.Clone(fallback)
	}
	for _, line := range lines {
		names := quoted().FindAllStringSubmatch(line, -1)
		switch {
		case unwanted().MatchString(line):
			for _, n := range names {
				delete(args, n[1])
			}
		case missing().MatchString(line):
			for _, n := range names {
				if _, has := args[n[1]]; !has && (sch == nil || sch.property(n[1]) != nil) {
					args = withArgument(args, n[1], f.guess(n[1], sch.property(n[1])))
				}
			}
		}
	}
	return f.fit(tool, sch, args)
}

var (
	quoted   = pattern.New("['\"“`]([A-Za-z_][A-Za-z0-9_]*)['\"”`]")
	unwanted = pattern.New(`(?i)additional|unexpected|unknown|not allowed`)
	missing  = pattern.New(`(?i)missing|required`)
)

// usual lists arguments that the script always gives to well-known tools if the schema has them,
// even if they are optional.
var usual = map[string][]string{
	"save_memory":    {"category", "content", "importance"},
	"query_activity": {"limit"},
}

func (f filler) fit(tool llm.Tool, sch schema, args map[string]any) map[string]any {
	for _, name := range usual[tool.Name] {
		p := sch.property(name)
		if _, has := args[name]; !has && (p != nil || !sch.closed()) {
			args = withArgument(args, name, f.guess(name, p))
		}
	}
	fitted, ok := f.conform(tool.Name, args, sch).(map[string]any)
	if !ok { // the schema does not describe an object
		return map[string]any{}
	}
	return fitted
}

// guess returns a value for an argument. It uses the schema's default, then the usual meaning of
// the name, then the type.
func (f filler) guess(name string, sch schema) any {
	if v, ok := sch["default"]; ok && v != nil {
		return v
	}
	var v any
	o := f.s.brief.Objective
	switch strings.ToLower(strings.ReplaceAll(name, "_", "")) {
	case "objectiveid":
		v = o.ID
	case "step", "number":
		v = number(f.s.brief.Step.Number)
	case "steps":
		v = []any{}
	case "limit":
		v = number(10)
	case "importance":
		v = middle(sch, 5)
	case "category":
		v = "note"
	case "title", "name", "query", "q":
		v = f.subject()
	case "content":
		v = o.fill(noteText)
	default:
		if sch.takes("string") {
			v = mark + f.subject()
		}
	}
	return f.conform(name, v, sch)
}

// subject returns the subject of the work in a few words.
func (f filler) subject() string {
	for _, s := range []string{f.s.brief.Objective.Title, f.s.brief.Step.Title, f.s.said} {
		if s = short(s, 80); s != "" {
			return s
		}
	}
	return "demo"
}

// withArgument returns a copy of args with one more argument.
func withArgument(args map[string]any, name string, v any) map[string]any {
	args = maps.Clone(args)
	if args == nil {
		args = map[string]any{}
	}
	args[name] = v
	return args
}

// readError splits an error message into lines of text and the first JSON Schema that it quotes.
// The schema is nil if there is none. Both may be plain text or inside JSON in the text.
func readError(message string) (lines []string, sch schema) {
	const most = 20 // limit of JSON pieces: each attempt may read the text to its end
	for range most {
		at := strings.IndexByte(message, '{')
		if at < 0 {
			break
		}
		lines = append(lines, message[:at])
		message = message[at:]
		decoder := json.NewDecoder(strings.NewReader(message))
		var data map[string]any
		if decoder.Decode(&data) != nil {
			message = message[1:]
			continue
		}
		message = message[decoder.InputOffset():]
		gather(data, &lines, &sch)
	}
	lines = append(lines, message)
	return strings.FieldsFunc(strings.Join(lines, "\n"), func(r rune) bool { return r == '\n' || r == ';' }), sch
}

// gather collects the texts and the first schema in data.
func gather(data any, lines *[]string, sch *schema) {
	switch data := data.(type) {
	case string:
		*lines = append(*lines, data)
	case []any:
		for _, v := range data {
			gather(v, lines, sch)
		}
	case map[string]any:
		if schema(data).isObject() {
			if *sch == nil {
				*sch = data
			}
			return
		}
		for _, key := range slices.Sorted(maps.Keys(data)) {
			gather(data[key], lines, sch)
		}
	}
}

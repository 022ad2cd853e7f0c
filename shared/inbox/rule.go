package inbox

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Rule maps deliveries to an action. The first rule of a source that matches a delivery counts.
type Rule struct {
	Event string      `json:"event,omitempty"` // * stands for any text; empty: every event
	When  []Condition `json:"when,omitempty"`  // all of them
	Then  Action      `json:"then"`
}

// Condition is about one value of a delivery.
type Condition struct {
	Path  string          `json:"path"` // such as body.issue.number or headers.x-github-event
	Op    Op              `json:"op"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Op compares the value at a path with a condition's.
type Op string

// The operators.
const (
	Eq       Op = "eq"
	Ne       Op = "ne"
	In       Op = "in"       // the condition's array has it
	Contains Op = "contains" // the text has the condition's text in it, or the array its value
	Exists   Op = "exists"   // the condition's value false: it does not
	Gt       Op = "gt"       // of numbers, or of texts
	Lt       Op = "lt"
	Matches  Op = "matches" // a regular expression (RE2)
)

var ops = []Op{Eq, Ne, In, Contains, Exists, Gt, Lt, Matches}

// Action is what a delivery does. Exactly one of Skill, Automation, Task and Message is set.
type Action struct {
	Skill      string `json:"skill,omitempty"`      // its name
	Automation string `json:"automation,omitempty"` // its name or id
	// Task describes a task that is created: an object of the arguments of the skill create_task,
	// whose texts may have templates.
	Task    json.RawMessage `json:"task,omitempty"`
	Message *Message        `json:"message,omitempty"`
	// With are the arguments of the skill, or those that replace arguments of the automation or the
	// task: an object whose texts may have templates such as {{body.issue.title}}.
	With json.RawMessage `json:"with,omitempty"`
}

// Message is text for a thread, which is opened when there is none. All its texts are templates.
type Message struct {
	Thread struct {
		Channel string `json:"channel"`
		Address string `json:"address"`
	} `json:"thread"`
	Body string `json:"body"`
}

// String says in a few words what the action is.
func (a Action) String() string {
	switch {
	case a.Skill != "":
		return "skill " + a.Skill
	case a.Automation != "":
		return "automation " + a.Automation
	case len(a.Task) > 0:
		return "task"
	case a.Message != nil:
		return "message"
	}
	return ""
}

// createTask is the skill that creates the task of an action.
const createTask = "create_task"

// Call returns the skill that the action names, and its arguments. The skill of an automation is
// empty: the automation knows it.
func (a Action) Call() (skill string, arguments json.RawMessage) {
	if len(a.Task) == 0 {
		return a.Skill, a.With
	}
	all := map[string]json.RawMessage{}
	for _, object := range []json.RawMessage{a.Task, a.With} {
		_ = json.Unmarshal(object, &all) // was checked before; With may be empty
	}
	raw, _ := json.Marshal(all) //nolint:errchkjson // was JSON before
	return createTask, raw
}

// Limits of rules.
const (
	MaxRules      = 50
	maxConditions = 20
	maxRules      = 32 << 10 // bytes of all
	maxGlob       = 200
	maxExpression = 200
	maxMachine    = 10_000 // size of all regular expressions: a delivery is matched with each, in seconds at the worst
	maxTarget     = 200
	maxTemplate   = 16 << 10
)

// checkRules validates the rules of a source.
func checkRules(bad *problem.InvalidError, rules []Rule) {
	bad.If(len(rules) > MaxRules, "rules", "may be 50 at most")
	if raw, err := json.Marshal(rules); err != nil || len(raw) > maxRules {
		bad.If(true, "rules", "may have 32 KiB at most")
	}
	machine := 0
	for i, r := range rules[:min(len(rules), MaxRules)] {
		r.check(bad, fmt.Sprintf("rules[%d]", i))
		for _, c := range r.When[:min(len(r.When), maxConditions)] {
			machine += c.machine()
		}
	}
	bad.If(machine > maxMachine, "rules", "have regular expressions that together take too long to match: repeat less")
}

func (r Rule) check(bad *problem.InvalidError, at string) {
	bad.If(len(r.Event) > maxGlob || !storable(r.Event), at+".event", "may have 200 characters at most")
	bad.If(len(r.When) > maxConditions, at+".when", "may have 20 conditions at most")
	for i, c := range r.When[:min(len(r.When), maxConditions)] {
		c.check(bad, fmt.Sprintf("%s.when[%d]", at, i))
	}
	r.Then.check(bad, at+".then")
}

func (c Condition) check(bad *problem.InvalidError, at string) {
	bad.If(!legalPath(c.Path), at+".path", "must be a path such as body.issue.number or headers.x-github-event")
	bad.If(!slices.Contains(ops, c.Op), at+".op", "must be eq, ne, in, contains, exists, gt, lt or matches")
	v, err := decodeJSON(c.Value)
	bad.If(len(c.Value) > 0 && err != nil, at+".value", "must be JSON")
	text, isText := v.(string)
	_, isNumber := v.(json.Number)
	switch c.Op {
	case In:
		_, isArray := v.([]any)
		bad.If(!isArray, at+".value", "must be an array")
	case Exists:
		_, isBool := v.(bool)
		bad.If(v != nil && !isBool, at+".value", "must be true or false")
	case Gt, Lt:
		bad.If(!isText && !isNumber, at+".value", "must be a number or a text")
	case Matches:
		_, err := regexp.Compile(text)
		bad.If(!isText || len(text) > maxExpression || err != nil, at+".value", "must be a regular expression (RE2) of 200 characters at most")
		bad.If(c.machine() > pattern.MaxSize, at+".value", "takes too long to match: repeat less")
	case Eq, Ne, Contains:
		bad.If(len(c.Value) == 0, at+".value", "is missing")
	}
}

// machine returns the size of the condition's regular expression, if it has one.
func (c Condition) machine() int {
	v, _ := decodeJSON(c.Value)
	text, is := v.(string)
	if c.Op != Matches || !is || len(text) > maxExpression {
		return 0
	}
	size, _ := pattern.Size(text) // check refuses what is no expression
	return size
}

func (a Action) check(bad *problem.InvalidError, at string) {
	set := 0
	for _, is := range []bool{a.Skill != "", a.Automation != "", len(a.Task) > 0, a.Message != nil} {
		if is {
			set++
		}
	}
	bad.If(set != 1, at, "must have exactly one of skill, automation, task and message")
	for field, name := range map[string]string{"skill": a.Skill, "automation": a.Automation} {
		bad.If(len(name) > maxTarget || !storable(name), at+"."+field, "must be a name of 200 characters at most")
	}
	if m := a.Message; m != nil {
		bad.If(m.Thread.Channel == "" || len(m.Thread.Channel) > 56 || strings.Contains(m.Thread.Channel, "{{"),
			at+".message.thread.channel", "must have 1 to 56 characters, and no template")
		bad.If(m.Thread.Channel == "operate", at+".message.thread.channel", "must not be operate: those conversations are people's own")
		bad.If(m.Thread.Address == "", at+".message.thread.address", "must not be empty")
		fixed, _, templated := strings.Cut(m.Thread.Address, "{{")
		bad.If(m.Thread.Channel == "http" && templated && strings.Count(fixed, "/") < 3, at+".message.thread.address",
			"must name the host itself: whoever sends a webhook would choose who gets the answers")
		bad.If(m.Body == "", at+".message.body", "must not be empty")
		bad.If(len(a.With) > 0, at+".with", "goes with skill, automation and task only")
		for field, text := range map[string]string{"thread.address": m.Thread.Address, "body": m.Body} {
			bad.If(len(text) > maxTemplate || !legalTemplate(text), at+".message."+field, badTemplate)
		}
	}
	for _, object := range a.objects() {
		v, err := decodeJSON(object.raw)
		_, isObject := v.(map[string]any)
		bad.If(err != nil || !isObject || len(object.raw) > maxTemplate, at+"."+object.field, "must be an object of 16 KiB at most")
		eachText(v, func(text string) { bad.If(!legalTemplate(text), at+"."+object.field, badTemplate) })
	}
}

// argument is a field with arguments, whose texts may have templates.
type argument struct {
	field string
	raw   json.RawMessage
}

// objects returns the fields with arguments that are given.
func (a Action) objects() (given []argument) {
	for _, o := range []argument{{"task", a.Task}, {"with", a.With}} {
		if len(o.raw) > 0 {
			given = append(given, o)
		}
	}
	return given
}

// checkHeaders refuses rules about headers that are never kept: they would see nothing there.
func (s *Source) checkHeaders(bad *problem.InvalidError) {
	hidden := func(path string) bool {
		name, is := headerIn(path)
		return is && s.hides(name)
	}
	for i, r := range s.Rules[:min(len(s.Rules), MaxRules)] {
		at := fmt.Sprintf("rules[%d]", i)
		for j, c := range r.When[:min(len(r.When), maxConditions)] {
			bad.If(hidden(c.Path), fmt.Sprintf("%s.when[%d].path", at, j), notKept)
		}
		template := func(field, text string) {
			eachTemplate(text, func(string) {}, func(path string) { bad.If(hidden(path), at+".then."+field, notKept) })
		}
		if m := r.Then.Message; m != nil {
			template("message.thread.address", m.Thread.Address)
			template("message.body", m.Body)
		}
		for _, object := range r.Then.objects() {
			v, _ := decodeJSON(object.raw) // was checked before
			eachText(v, func(text string) { template(object.field, text) })
		}
	}
}

const notKept = "names a header that may hold a credential: such headers are not kept, so a rule finds nothing there"

const badTemplate = "must have templates such as {{body.issue.title}} only, and 16 KiB at most"

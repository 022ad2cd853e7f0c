package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// A verb is one command of the program.
type verb struct {
	name  string
	args  string // arguments, as the usage shows them
	about string // one line
	setup func(*flag.FlagSet) action
}

// An action runs a verb after its flags are parsed.
type action func(ctx context.Context, c *console, args []string) error

// verbs returns all verbs, in the order in which a new user needs them.
func verbs() []verb {
	first := []verb{
		{"dev", "", "run everything in this process, until Ctrl-C", dev},
		{"trigger", "heartbeat|coordinator [--payload FILE] [--wait]",
			"run one beat, or the coordinator's cycles, in this process, and report", trigger},
		{"overview", "", "tell what the agent does now, whether it works, and what needs you", overviewVerb},
		{"ask", "MESSAGE [--thread ID]", "talk with the agent, in this process", askVerb},
		{"trace", "ID [--full]", "tell the story of one trace", traceVerb},
		{"locks", "[release LANE --reason TEXT]", "list who holds which lane, or end a hold by force", locks},
	}
	for _, r := range resources() {
		first = append(first, r.verb())
	}
	return append(first, []verb{
		{"doctor", "", "check every dependency, and say how to mend it", doctor},
		{"demo", "remove", "remove the demo that the first start has made", demoVerb},
		{"export", "", "print all that a workspace has, as JSON, without its secrets", exportVerb},
		{"migrate", "[--owner EMAIL]", "bring the database's schema up to date", migrateVerb},
		{"config", "", "print the configuration in force, without its secrets", config},
		{"token", "[--user EMAIL] [--url URL]", "print the admin token of the local API, or a link that signs a person in", token},
		{"completion", "bash|zsh", "print a script that has the shell complete verbs", completion},
		{"version", "", "print what this build is", version},
		{"help", "[VERB]", "print this, or more about a verb", help},
	}...)
}

func find(name string) (verb, bool) {
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-v", "-version", "--version":
		name = "version"
	}
	for _, v := range verbs() {
		if v.name == name {
			return v, true
		}
	}
	return verb{}, false
}

// usage returns the verb's usage line.
func (v verb) usage() string { return strings.TrimSpace("lanekeeper " + v.name + " " + v.args) }

// describe returns the verb's help for programs.
func (v verb) describe(flags *flag.FlagSet) any {
	type option struct {
		Flag  string `json:"flag"`
		About string `json:"about"`
	}
	var options []option
	flags.VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		options = append(options, option{strings.TrimSpace(dashed(f.Name) + " " + name), text})
	})
	var calls []string
	for _, example := range examples[v.name] {
		calls = append(calls, "lanekeeper "+v.name+" "+example)
	}
	return struct {
		verbInfo
		Flags    []option `json:"flags"`
		Examples []string `json:"examples,omitempty"`
	}{verbInfo{v.name, v.usage(), v.about}, options, calls}
}

// help returns the verb's usage and flags.
func (v verb) help(flags *flag.FlagSet) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "usage: %s\n\n%s%s.\n\n", v.usage(), strings.ToUpper(v.about[:1]), v.about[1:])
	flags.VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  %-16s %s\n", strings.TrimSpace(dashed(f.Name)+" "+name), text)
	})
	if len(examples[v.name]) > 0 {
		b.WriteString("\nexamples\n")
	}
	for _, example := range examples[v.name] {
		fmt.Fprintf(&b, "  lanekeeper %s %s\n", v.name, example)
	}
	return b.String()
}

func help(*flag.FlagSet) action {
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) == 0 {
			return c.answer(listVerbs(), func(w io.Writer) { fmt.Fprint(w, c.asCalled(helpText())) })
		}
		return c.run(ctx, []string{args[0], "-h"})
	}
}

// verbInfo is a verb for programs.
type verbInfo struct {
	Name  string `json:"name"`
	Usage string `json:"usage"`
	About string `json:"about"`
}

// listVerbs returns the help for programs.
func listVerbs() any {
	var o struct {
		Verbs     []verbInfo     `json:"verbs"`
		ExitCodes map[int]string `json:"exitCodes"`
	}
	for _, v := range verbs() {
		o.Verbs = append(o.Verbs, verbInfo{v.name, v.usage(), v.about})
	}
	o.ExitCodes = map[int]string{}
	for _, e := range exits {
		o.ExitCodes[e.code] = e.meaning
	}
	return o
}

func helpText() string {
	var b strings.Builder
	b.WriteString("Lanekeeper keeps autonomous agents in their lanes.\n\nusage: lanekeeper VERB [--json]\n       go run " +
		"./infra/local VERB [--json]\n\n")
	for _, v := range verbs() {
		fmt.Fprintf(&b, "  %-17s %s\n", v.name, v.about)
	}
	b.WriteString("\n`lanekeeper help VERB` tells more about one. The configuration comes from the\n" +
		"environment: `lanekeeper config` prints what is in force.\n\nexit codes\n")
	for _, e := range exits {
		fmt.Fprintf(&b, "  %d  %s\n", e.code, e.meaning)
	}
	return b.String()
}

// unknown returns the error for a verb that does not exist. It names the most similar one.
func unknown(name string) error {
	err := &usageError{problem: fmt.Sprintf("there is no verb %q", clean(name)), text: "`lanekeeper help` lists the verbs.\n"}
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	if similar := mostSimilar(name, names); similar != "" {
		err.problem += fmt.Sprintf("; did you mean %q?", similar)
	}
	return err
}

// mostSimilar returns the word that a mistyped one most probably stands for; empty: none is similar.
func mostSimilar(mistyped string, words []string) (similar string) {
	best := 1 + len(mistyped)/2
	for _, word := range words {
		d := skill.Distance(mistyped, word)
		if strings.HasPrefix(word, mistyped) {
			d = 0
		}
		if d < best {
			best, similar = d, word
		}
	}
	return similar
}

// dashed returns a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

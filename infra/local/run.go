package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
)

// console holds the environment and the streams of a verb.
type console struct {
	name    string // how the program was called, for commands that the user copies
	environ []string
	in      io.Reader
	out     io.Writer // answers
	err     io.Writer // errors, and the log of verbs that print an answer
	json    bool      // print answers for programs

	terminal bool // in and out are a terminal, so that a person can be asked
}

// run runs one command line, which begins with the program's name, and returns the exit code. When
// ctx ends, running work parks and open resources are closed.
func run(ctx context.Context, args, environ []string, in io.Reader, out, errs io.Writer) int {
	c := &console{
		name: calledAs(args[0]), environ: environ, in: in, out: out, err: errs,
		terminal: isTerminal(in) && isTerminal(out),
	}
	return c.code(c.run(ctx, args[1:]))
}

// calledAs returns what a user types to call this program again.
func calledAs(program string) string {
	if strings.Contains(program, "go-build") { // the temporary file of go run
		return "go run ./infra/local"
	}
	return program
}

// commands matches the program's name where a text gives a command to copy.
var commands = regexp.MustCompile("(?m)(^ *|: |[`'(])(?:bin/)?lanekeeper ")

// asCalled returns a text whose commands name the program as it was called.
func (c *console) asCalled(text string) string {
	return commands.ReplaceAllStringFunc(text, func(found string) string {
		before := strings.TrimSuffix(strings.TrimSuffix(found, "lanekeeper "), "bin/")
		return before + c.name + " "
	})
}

func (c *console) run(ctx context.Context, args []string) error {
	for len(args) > 0 && (args[0] == "--json" || args[0] == "-json") {
		c.json, args = true, args[1:]
	}
	if len(args) == 0 {
		return &usageError{text: helpText()}
	}
	v, ok := find(args[0])
	if !ok {
		return unknown(args[0])
	}
	var complaint bytes.Buffer
	flags := flag.NewFlagSet(v.name, flag.ContinueOnError)
	flags.SetOutput(&complaint)
	flags.Usage = func() {} // printed below instead
	flags.BoolVar(&c.json, "json", c.json, "answer in JSON, for programs")
	do := v.setup(flags)
	rest, err := parse(flags, args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return c.answer(v.describe(flags), func(w io.Writer) { fmt.Fprint(w, c.asCalled(v.help(flags))) })
	case err != nil:
		wrong := strings.TrimSpace(complaint.String())
		if v.name == "dev" {
			wrong += "; " + devSettings
		}
		return &usageError{problem: wrong, text: v.help(flags)}
	}
	w := &sticky{w: c.out}
	if v.name != "dev" && !isTerminal(c.out) { // a disk may be full; dev goes on without its output
		c.out = w
	}
	err = do(ctx, c, rest)
	if err == nil && w.err != nil && !errors.Is(w.err, syscall.EPIPE) { // who stops reading has enough
		return fmt.Errorf("write the answer: %w", w.err)
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		usage.text = cmp.Or(usage.text, v.help(flags))
	}
	return err
}

// parse parses flags at any position among the arguments, and returns the other arguments.
func parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// sticky keeps the first error of a writer.
type sticky struct {
	w   io.Writer
	err error
}

func (s *sticky) Write(p []byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	n, s.err = s.w.Write(p)
	return n, s.err
}

// answer prints the result of a verb: v as JSON, or the output of human.
func (c *console) answer(v any, human func(io.Writer)) error {
	if !c.json {
		human(c.out)
		return nil
	}
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

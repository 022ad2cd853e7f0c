package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/capture"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// asked is the result of a turn.
type asked struct {
	Answer   string `json:"answer"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
	TraceID  string `json:"traceId"`
	ThreadID string `json:"threadId"`
}

// askVerb runs one turn with the agent in this process and prints the text while the model writes
// it. After Ctrl-C the turn continues without the terminal.
func askVerb(flags *flag.FlagSet) action {
	ws := workspaceFlag(flags)
	thread := flags.String("thread", "", "go on with the conversation of this `ID`")
	multitask := flags.String("multitask", "", "what to do about a turn that runs: `HOW`, one of enqueue, reject, interrupt, rollback")
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) != 1 {
			return misused("ask takes one message: ask \"What did you do today?\"")
		}
		core, ask, err := c.operate(ctx, db.Workspace(*ws))
		if err != nil {
			return err
		}
		defer core.DB.Close()
		defer keepSpans(ctx, core)()
		body := map[string]any{"message": args[0], "stream": !c.json}
		for name, value := range map[string]string{"threadId": *thread, "multitask": *multitask} {
			if value != "" {
				body[name] = value
			}
		}
		var end asked
		if c.json {
			all, err := ask.ask(ctx, http.MethodPost, "/api/v1/operate", body, &end)
			if err != nil {
				return c.noThread(*thread, err)
			}
			if err := c.answer(all, nil); err != nil {
				return err
			}
		} else {
			if err := c.sayWhoHasIt(ctx, ask, *multitask); err != nil {
				return err
			}
			w := &spoken{p: newPaper(c.out, c.environ), end: &end}
			if err := ask.send(ctx, http.MethodPost, "/api/v1/operate", body, w); err != nil {
				return err
			}
			if err := refusalOf(&w.Buffer); err != nil {
				return c.noThread(*thread, err)
			}
			w.close(c.name, inWorkspace(*ws))
		}
		switch end.Status {
		case "stalled", "failed", "cancelled":
			return &exitError{code: exitFailed}
		}
		return nil
	}
}

// noThread explains that the conversation for a message does not exist.
func (c *console) noThread(id string, err error) error {
	refused, ok := errors.AsType[*refusedError](err)
	malformed := ok && refused.Status == http.StatusUnprocessableEntity && uuid.Validate(id) != nil
	if !ok || id == "" || refused.Status != http.StatusNotFound && !malformed {
		return err
	}
	return &hinted{
		fmt.Errorf("there is no conversation %s with the agent", clean(id)),
		fmt.Sprintf("Without --thread the message begins a new one. `%s threads list channel=operate` lists those that there are.", c.name),
	}
}

// sayWhoHasIt prints what holds up a person's message, if anything does.
func (c *console) sayWhoHasIt(ctx context.Context, ask *operator, multitask string) error {
	if multitask != "" && multitask != "enqueue" {
		return nil
	}
	var why struct {
		Held    bool   `json:"held"`
		Summary string `json:"summary"`
	}
	if _, err := ask.ask(ctx, http.MethodGet, "/api/v1/lanes/operate/why", nil, &why); err != nil || !why.Held {
		return err
	}
	p := newPaper(c.out, c.environ)
	p.print(true, span{dim, "Your message waits for its turn: " + why.Summary + "."})
	return nil
}

// spoken prints a stream of events as they arrive. It stores any other response.
type spoken struct {
	capture.Buffer
	p      paper
	end    *asked
	middle bool // of a line
}

// Write implements [http.ResponseWriter]. A stream arrives in whole events.
func (s *spoken) Write(b []byte) (int, error) {
	if s.Header().Get("Content-Type") != "text/event-stream" {
		return s.Buffer.Write(b)
	}
	for event := range eventsOf(b) {
		s.event(event.kind, event.data)
	}
	return len(b), nil
}

// Flush implements [http.Flusher].
func (s *spoken) Flush() {}

func (s *spoken) event(kind string, data []byte) {
	switch kind {
	case "delta":
		var d struct{ Text string }
		_ = json.Unmarshal(data, &d) // encoded by this program
		for i, line := range strings.Split(d.Text, "\n") {
			if i > 0 {
				s.newLine()
			}
			fmt.Fprint(s.p.w, clean(line))
			s.middle = s.middle || line != ""
		}
	case "restart":
		if s.middle {
			s.newLine()
		}
		s.p.print(true, span{dim, "· the answer broke off and begins anew"})
	case "step":
		var step struct{ Skill, Status, ApprovalID string }
		_ = json.Unmarshal(data, &step)
		if s.middle {
			s.newLine()
		}
		s.p.print(true, span{dim, strings.TrimSpace(fmt.Sprintf("· %s %s %s", step.Skill, step.Status, step.ApprovalID))})
	case "done":
		_ = json.Unmarshal(data, s.end)
	}
}

func (s *spoken) newLine() {
	fmt.Fprintln(s.p.w)
	s.middle = false
}

// close prints how the turn ended and how to continue.
func (s *spoken) close(name, in string) {
	if s.middle {
		s.newLine()
	}
	if s.end.Status != "completed" {
		s.p.print(true, span{yellow, s.end.Status + ": " + s.end.Reason})
	}
	s.p.print(true)
	s.p.print(true, span{dim, "Go on: " + name + " ask" + in + " --thread " + s.end.ThreadID + " \"…\"   Its story: " + name +
		" trace " + s.end.TraceID})
}

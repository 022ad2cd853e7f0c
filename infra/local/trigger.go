package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/mail"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// trigger runs one beat, or the coordinator's cycles, in this process. With a payload it is like a
// delivery of the schedule. Without one it is by hand; a beat then runs every phase.
func trigger(flags *flag.FlagSet) action {
	payload := flags.String("payload", "", "a `FILE` with the event to deliver, - for stdin; without it the beat is by hand")
	wait := flags.Bool("wait", false, "when the lane is taken, wait for it, a minute at most")
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) == 1 && args[0] == "coordinator" && !*wait {
			return c.cycle(ctx, *payload)
		}
		if len(args) != 1 || args[0] != "heartbeat" {
			return misused("trigger takes the name of a function: heartbeat or coordinator (which takes no --wait)")
		}
		tick := heartbeat.Tick{Full: true}
		if *payload != "" {
			var err error
			if tick, err = c.tick(*payload); err != nil {
				return err
			}
		}
		if *wait {
			tick.Wait = time.Minute
		}
		agent, done, err := c.surfaces(ctx)
		if err != nil {
			return err
		}
		defer done()
		if tick.Workspace == "" {
			if tick.Workspace, err = only(ctx, agent.Core.DB); err != nil {
				return err
			}
		}
		report, err := agent.Heartbeat.Run(ctx, tick)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("stopped; the next beat goes on where this one was")
		}
		if err != nil {
			return err
		}
		names, err := namesIn(ctx, agent.Workspaces, report)
		if err != nil {
			return err
		}
		if err := c.answer(report, func(w io.Writer) { printReport(newPaper(w, c.environ), c.name, report, names) }); err != nil {
			return err
		}
		return outcome(report)
	}
}

// namesIn returns the names of the workspaces of a report, by their ids.
func namesIn(ctx context.Context, workspaces *workspace.Store, r heartbeat.Report) (map[string]string, error) {
	var ids []db.Workspace
	for _, one := range r.Workspaces {
		ids = append(ids, db.Workspace(one.Workspace))
	}
	found, err := workspaces.List(ctx, ids)
	names := map[string]string{}
	for _, w := range found {
		names[string(w.ID)] = w.Name
	}
	return names, err
}

// surfaces connects to the database and wires what the functions run. done disconnects.
func (c *console) surfaces(ctx context.Context) (agent *wire.Surfaces, done func(), err error) {
	cfg, err := c.load()
	if err != nil {
		return nil, nil, err
	}
	d, err := connect(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	core := app.NewCore(d, cfg, c.logger(c.err, cfg, cfg.LogLevel), awsConfig)
	if agent, err = wire.New(core, instance(), mail.Channels(core)...); err != nil {
		_ = d.Close()
		return nil, nil, err
	}
	stop := keepSpans(ctx, core)
	return agent, func() { stop(); _ = d.Close() }, nil
}

// tick reads the event in a file, like the function heartbeat.
func (c *console) tick(file string) (heartbeat.Tick, error) { return payload(c, file, edge.DecodeTick) }

// payload reads the event in a file, or from stdin if the file is "-".
func payload[T any](c *console, file string, decode func([]byte) (T, error)) (t T, err error) {
	var raw []byte
	if file == "-" {
		raw, err = io.ReadAll(c.in)
	} else {
		raw, err = os.ReadFile(file)
	}
	if err == nil {
		t, err = decode(raw)
	}
	if err != nil {
		return t, &exitError{exitUsage, fmt.Errorf("read the payload: %w", err)}
	}
	return t, nil
}

// cycle runs the coordinator's cycles of an event, or one in each workspace.
func (c *console) cycle(ctx context.Context, file string) error {
	var tick coordinator.Tick
	if file != "" {
		var err error
		if tick, err = payload(c, file, edge.DecodeCycle); err != nil {
			return err
		}
	}
	agent, done, err := c.surfaces(ctx)
	if err != nil {
		return err
	}
	defer done()
	report, err := agent.Coordinator.Run(ctx, tick)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("stopped; the next cycle does the rest")
	}
	if err != nil {
		return err
	}
	return c.answer(report, func(w io.Writer) { printCycles(newPaper(w, c.environ), c.name, report) })
}

func printCycles(p paper, name string, r coordinator.Report) {
	p.print(true, span{bold, "cycles   "}, span{plain, join(count(int64(r.Cycles), "cycle")+" ran",
		took(time.Duration(r.DurationMS)*time.Millisecond))})
	if r.Busy > 0 {
		p.print(true, span{bold, "busy     "}, span{plain, count(int64(r.Busy), "workspace") + " in which another process runs one"})
	}
	p.print(true)
	p.print(true, span{dim, "What is to be done: " + name + " tasks"})
}

// outcome returns the error for the exit code of a beat. A skipped beat has not failed.
func outcome(r heartbeat.Report) error {
	if r.Outcome == heartbeat.Lost {
		return &exitError{code: exitFailed}
	}
	for _, one := range r.Workspaces {
		if err := outcome(one); err != nil {
			return err
		}
	}
	return nil
}

// printReport prints a report. names are those of workspaces, by their ids.
func printReport(p paper, name string, r heartbeat.Report, names map[string]string) {
	if len(r.Workspaces) > 0 {
		for _, one := range r.Workspaces {
			p.print(true, span{bold, "workspace " + cmp.Or(names[one.Workspace], one.Workspace)})
			printReport(p, name, one, names)
		}
		return
	}
	if r.Outcome == "" {
		p.print(true, span{plain, "There was nothing to run."})
		return
	}
	head := []span{{bold, "outcome  "}, {outcomeStyle(string(r.Outcome)), string(r.Outcome)}}
	if r.Reason != "" {
		head = append(head, span{plain, ": " + r.Reason})
	}
	p.print(true, head...)
	fact := func(name, value string) {
		if value != "" {
			p.print(true, span{bold, fmt.Sprintf("%-9s", name)}, span{plain, value})
		}
	}
	fact("holder", r.Holder)
	if r.PutOffTo != nil {
		fact("put off", "to "+timeOfDay(*r.PutOffTo))
	}
	fact("trace", r.TraceID)
	fact("slot", r.Slot)
	idle := true
	for _, ph := range r.Phases {
		idle = idle && ph.Considered == 0
	}
	for _, ph := range r.Phases {
		if !idle {
			fact(ph.Name, phaseText(int64(ph.Considered), int64(ph.Done), int64(ph.Failed), int64(ph.Left), ph.Tokens,
				time.Duration(ph.DurationMS)*time.Millisecond))
		}
	}
	fact("total", join(count(r.Tokens, "token"), took(time.Duration(r.DurationMS)*time.Millisecond)))
	switch {
	case r.Holder != "":
		p.print(true)
		in := inWorkspace(r.Workspace)
		if called := names[r.Workspace]; in != "" && called != "" {
			in = inWorkspace(called)
		}
		p.print(true, span{dim, "Until when at the latest: " + name + " locks" + in})
	case len(r.Phases) > 0:
		p.print(true)
		p.print(true, span{dim, "Its story: " + name + " trace " + r.TraceID})
	}
}

// Command lanekeeper runs Lanekeeper on one machine, all of it in one process
// over one SQLite file, and holds the operator's verbs for any database.
// `lanekeeper help` lists them.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does; else the terminal was closed
		signal.Notify(signals, syscall.SIGHUP)
	}
	if len(os.Args) > 1 && slices.Contains([]string{"dev", "ask", "trigger"}, os.Args[1]) {
		signal.Ignore(syscall.SIGPIPE) // whoever reads may leave: what holds a lane goes on to its end
	}
	go func() {
		<-signals
		signal.Stop(signals) // a second one ends the process at once
		stop()
	}()
	os.Exit(run(ctx, os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

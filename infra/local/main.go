// Command lanekeeper runs all of Lanekeeper in one process over one SQLite file. It also has the
// operator's verbs for any database. `lanekeeper help` lists them.
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
	if !signal.Ignored(syscall.SIGHUP) { // ignored by nohup; otherwise it says that the terminal was closed
		signal.Notify(signals, syscall.SIGHUP)
	}
	if len(os.Args) > 1 && slices.Contains([]string{"dev", "ask", "trigger"}, os.Args[1]) {
		signal.Ignore(syscall.SIGPIPE) // the reader of the output may end, but work that holds a lane must finish
	}
	go func() {
		<-signals
		signal.Stop(signals) // a second signal ends the process at once
		stop()
	}()
	os.Exit(run(ctx, os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestWhoIsDead(t *testing.T) {
	me := self()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := me
	child.pid = cmd.Process.Pid
	child.started, _ = look(child.pid)
	holder := func(p process) string {
		return string(lane.NewHolder("operate", p.String(), trace.ID("op_0mh8c1v2q_a7x2p1k9d4")))
	}
	with := func(change func(*process)) string {
		p := child
		change(&p)
		return holder(p)
	}
	check := func(when string, wants map[string]bool) {
		t.Helper()
		for h, want := range wants {
			if got := me.dead(h); got != want {
				t.Errorf("%s, %s: dead %t, want %t", when, h, got, want)
			}
		}
	}
	earlier := with(func(p *process) { p.started = "1" })
	alive := map[string]bool{
		holder(me): false, "outbox " + me.String(): false, holder(child): false, // they run
		earlier: true, "outbox " + strings.Split(earlier, "/")[1]: true, // another process has its id now
		"": false, "operate/host-1/op_x": false, "ada": false, // nothing is known about these
		fmt.Sprintf("operate/%s-%d/op_x", me.host, child.pid): false,
	}
	check("while it runs", alive)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	check("after its death", map[string]bool{
		holder(child): true, "outbox " + child.String(): true, holder(me): false,
		with(func(p *process) { p.boot = "0123456789abcdef" }): false, // before the current boot, or on another host
		with(func(p *process) { p.space = "1" }):               false, // in another container
		with(func(p *process) { p.host = "elsewhere" }):        false,
	})
}

func TestADeadProcessWhoseParentDoesNotAsk(t *testing.T) {
	me := self()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := me
	child.pid = cmd.Process.Pid
	child.started, _ = look(child.pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return me.dead(child.String()) }) // nobody has waited for it yet
	_ = cmd.Wait()
}

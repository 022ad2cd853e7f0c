package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestTheDemoPageChats has a browser chat on the page that `lanekeeper dev` serves, reload it, and find
// the conversation again.
func TestTheDemoPageChats(t *testing.T) {
	d := newHome(t).dev()
	url, _, _ := d.started()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the browser may have to be installed
	defer cancel()
	b, err := browser.Start(ctx)
	if _, missing := errors.AsType[*servers.MissingError](err); missing && !dbtest.InCI() {
		t.Skipf("NOT RUN: %v", err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, err := b.Open(ctx, browser.Phone)
	check(err)

	const root = `document.querySelector("lanekeeper-chat").shadowRoot`
	const answered = root + `.querySelectorAll(".assistant:not([aria-hidden])").length === 2 && ` +
		root + `.querySelector(".log").textContent.includes("[demo model]")`
	check(p.Goto(ctx, url+"/chat-demo"))
	check(p.Until(ctx, `document.body.textContent.includes("The demo model answers here") && `+root))
	check(p.Click(ctx, root+`.querySelector(".launch")`))
	check(p.Until(ctx, root+`.activeElement.id === "message"`))
	check(p.Type(ctx, "What can you do?"))
	check(p.Press(ctx, "Enter"))
	check(p.Until(ctx, answered))
	check(p.Reload(ctx))
	check(p.Until(ctx, root))
	check(p.Click(ctx, root+`.querySelector(".launch")`))
	check(p.Until(ctx, answered))
	if complaints := p.Complaints(); len(complaints) > 0 {
		t.Errorf("the browser complains: %q", complaints)
	}
	if code := d.end(); code != exitDone || d.errs.String() != "" {
		t.Errorf("exit code %d\n%s", code, d)
	}
}

package widget_test

import (
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
)

// conversation: the page loads nothing but its own, an answer appears while it is written, and the
// second message goes into the thread of the first.
func conversation(r *room) {
	written := make(chan struct{})
	r.stub.talks(func(c *call) {
		c.begin()
		c.event("1.0.00000000", "step", map[string]any{"callId": "1", "skill": "search", "status": "started"})
		c.delta("2.4.00000000", "One ")
		c.wait(written)
		c.delta("2.8.00000000", "two.")
		c.finish("2.8.00000000", "One two.")
	})
	r.visit()
	r.open()
	r.shows()
	r.must(r.Click(r.ctx, q("textarea")))
	r.must(r.Type(r.ctx, "  Count to two. "))
	r.must(r.Click(r.ctx, q(".write button")))
	r.until(q(".say[aria-hidden]") + `.textContent === "One "`)
	r.until(q(".status") + `.textContent.includes("being written")`)
	r.must(r.Type(r.ctx, "Too early"))
	r.must(r.Press(r.ctx, "Enter")) // while an answer is written, nothing is sent
	close(written)
	r.shows("user|Count to two.", "assistant|One two.")
	r.until(idle)
	r.must(r.Press(r.ctx, "Enter"))
	r.shows("user|Count to two.", "assistant|One two.", "user|Too early", "assistant|One two.")
	r.once(2)
	r.quiet()
	var urls []string
	for _, u := range r.Requests() {
		urls = append(urls, strings.TrimPrefix(u, r.stub.URL))
	}
	want := []string{"/chat-demo", "/chat/widget.js", "/api/v1/chat/messages"}
	if len(urls) != 4 || !slices.Equal(urls[:3], want) || !strings.HasPrefix(urls[3], "/api/v1/chat/thread-of-") {
		r.Errorf("the page asked for %q", urls)
	}
}

func keyboardOnly(r *room) {
	r.visit()
	r.must(r.Press(r.ctx, "Tab"))
	for range 10 { // the widget comes behind what the page has
		var there bool
		r.must(r.Eval(r.ctx, focused+`?.className === "launch"`, &there))
		if there {
			break
		}
		r.must(r.Press(r.ctx, "Tab"))
	}
	r.until(focused + `.className === "launch"`)
	r.must(r.Press(r.ctx, "Enter"))
	r.until(panelOpen + ` && ` + focused + `.id === "message"`)
	r.must(r.Type(r.ctx, "One"))
	r.must(r.Press(r.ctx, "Shift+Enter"))
	r.must(r.Type(r.ctx, "two"))
	r.must(r.Press(r.ctx, "Enter"))
	r.shows("user|One\ntwo", "assistant|You said: One\ntwo")
	r.until(focused + `.id === "message" && ` + focused + `.value === ""`)
	r.must(r.Press(r.ctx, "Shift+Tab"))
	r.until(focused + `.className === "log"`) // it can be scrolled
	r.must(r.Press(r.ctx, "Shift+Tab"))
	r.until(focused + `.ariaLabel === "Close the chat"`)
	r.must(r.Press(r.ctx, "Escape"))
	r.until(`!` + panelOpen + ` && ` + focused + `.className === "launch"`)
	r.must(r.Press(r.ctx, "Space"))
	r.until(panelOpen + ` && ` + focused + `.id === "message"`)
	r.must(r.Resize(r.ctx, browser.Phone)) // there the panel is all there is
	r.until(panelOpen + ` && ` + q(".panel") + `.matches(":modal") && ` + focused + `.id === "message"`)
	r.must(r.Press(r.ctx, "Escape"))
	r.until(`!` + panelOpen + ` && ` + focused + `.className === "launch"`)
	r.once(1)
	r.quiet()
}

func reload(r *room) {
	r.visit()
	var stored int
	r.must(r.Eval(r.ctx, `localStorage.length`, &stored))
	if stored != 0 {
		r.Error("something is stored before anything is said")
	}
	r.open()
	r.write("Hello")
	r.shows("user|Hello", "assistant|You said: Hello")
	r.must(r.Reload(r.ctx))
	r.until(q(".launch"))
	r.open()
	r.shows("user|Hello", "assistant|You said: Hello")
	r.write("Again")
	r.shows("user|Hello", "assistant|You said: Hello", "user|Again", "assistant|You said: Again")
	r.once(2)
	r.quiet()
}

// reloadInTheMiddle: the answer goes on, from its beginning.
func reloadInTheMiddle(r *room) {
	r.stub.talks(func(c *call) {
		c.begin()
		c.delta("1.4.00000000", "One ")
		<-c.gone
	})
	r.stub.resumes(func(c *call, last string) {
		c.begin()
		c.delta("1.8.00000000", "One two. Last: "+last)
		c.finish("1.8.00000000", "One two. Last: "+last)
	})
	r.visit()
	r.open()
	r.write("Count")
	r.until(q(".say[aria-hidden]") + `.textContent === "One "`)
	r.must(r.Reload(r.ctx))
	r.until(q(".launch"))
	r.open()
	r.shows("user|Count", "assistant|One two. Last: ")
	r.until(q("textarea") + `.value === ""`)
	r.once(1)
	r.quiet()
}

// notSentTwice: neither by keys nor by clicks, while it is sent.
func notSentTwice(r *room) {
	sent := make(chan struct{})
	r.stub.talks(func(c *call) {
		c.wait(sent)
		c.begin()
		c.finish("1.1.00000000", "Once")
	})
	r.visit()
	r.open()
	r.write("Hello")
	for range 3 {
		r.must(r.Press(r.ctx, "Enter"))
		r.must(r.Click(r.ctx, q(".write button")))
	}
	r.must(r.Press(r.ctx, "Escape"))
	r.open()
	close(sent)
	r.shows("user|Hello", "assistant|Once")
	r.until(idle)
	r.once(1)
	r.quiet()
}

// answerComesLater: a person has approved what the agent asked for.
func answerComesLater(r *room) {
	waiting := make(chan *call, 1)
	r.stub.talks(func(c *call) {
		waiting <- c
		c.begin()
		c.delta("1.1.00000000", "I have asked.")
		c.done("1.1.00000000", "waiting", "A sentence of the server's")
	})
	r.visit()
	r.open()
	r.write("Hello")
	r.notes("A person looks at this first.")
	r.until(idle)
	r.must(r.Press(r.ctx, "Escape"))
	r.until(`!` + panelOpen)
	(<-waiting).says("assistant", "Approved.")
	r.open()
	r.shows("user|Hello", "assistant|I have asked.", "assistant|Approved.")
	r.until(`!` + q(".notice"))
	r.once(1)
	r.quiet()
}

func failedAnswer(r *room) {
	r.stub.talks(func(c *call) {
		c.begin()
		c.done("1.1.00000000", "failed", "")
	})
	r.visit()
	r.open()
	r.write("Hello")
	r.notes("something went wrong")
	r.shows("user|Hello")
	r.stub.talks(nil)
	r.write("Again")
	r.shows("user|Hello", "user|Again", "assistant|You said: Again")
	r.until(`!` + q(".notice"))
	r.quiet()
}

// closedMeanwhile: who has closed the panel sees that there is an answer.
func closedMeanwhile(r *room) {
	closed := make(chan struct{})
	r.stub.talks(func(c *call) {
		c.begin()
		c.wait(closed)
		c.finish("1.1.00000000", "Here")
	})
	r.visit()
	r.open()
	r.write("Hello")
	r.until(q(".status") + `.textContent !== ""`)
	r.must(r.Press(r.ctx, "Escape"))
	r.until(`!` + panelOpen)
	close(closed)
	r.until(q(".launch[data-unread]") + `.ariaLabel === "Open the chat: there is an answer"`)
	r.open()
	r.shows("user|Hello", "assistant|Here")
	r.until(`!` + q(".launch[data-unread]"))
	r.quiet()
}

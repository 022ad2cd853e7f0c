package widget_test

import (
	"net/http"
	"slices"
)

// brokenStream: it goes on behind the last event, however often it breaks.
func brokenStream(r *room) {
	seen := make(chan struct{}) // what came so far is on display
	breaks := func(c *call, id, text string) {
		c.begin()
		c.delta(id, text)
		c.wait(seen)
		c.cut()
	}
	r.stub.talks(func(c *call) { breaks(c, "1.4.0000000a", "One ") })
	var lasts []string
	r.stub.resumes(func(c *call, last string) {
		c.mu.Lock()
		lasts = append(lasts, last)
		n := len(lasts)
		c.mu.Unlock()
		switch n {
		case 1:
			http.Error(c.w, "{}", http.StatusServiceUnavailable)
		case 2:
			breaks(c, "1.8.0000000b", "two ")
		case 3:
			c.begin() // and ends without a word
		default:
			c.begin()
			c.delta("1.14.0000000c", "three.")
			c.finish("1.14.0000000c", "One two three.")
		}
	})
	r.visit()
	r.open()
	r.write("Count")
	r.until(q(".say[aria-hidden]") + `.textContent === "One "`)
	r.signal(seen)
	r.until(q(".say[aria-hidden]") + `.textContent === "One two "`)
	r.signal(seen)
	r.shows("user|Count", "assistant|One two three.")
	r.until(idle)
	r.once(1)
	r.quiet("ERR_INCOMPLETE_CHUNKED_ENCODING", "503")
	r.stub.mu.Lock()
	defer r.stub.mu.Unlock()
	if want := []string{"1.4.0000000a", "1.4.0000000a", "1.8.0000000b", "1.8.0000000b"}; !slices.Equal(lasts, want) {
		r.Errorf("it came back behind %q, want %q", lasts, want)
	}
}

// brokenBeforeTheAnswer: nobody knows whether the message arrived. The history does.
func brokenBeforeTheAnswer(r *room) {
	r.visit()
	r.open()
	r.write("First")
	r.shows("user|First", "assistant|You said: First")
	r.stub.talks(func(c *call) { c.cut() })
	r.stub.resumes(func(c *call, _ string) {
		c.begin()
		c.finish("1.8.00000000", "Second answer")
	})
	r.write("Second")
	r.shows("user|First", "assistant|You said: First", "user|Second", "assistant|Second answer")

	// This one is not taken. The browser may send it again by itself, once.
	taking := make(chan struct{})
	r.stub.refuses(func(http.ResponseWriter, int) bool {
		select {
		case <-taking:
			return false
		default:
			panic(http.ErrAbortHandler)
		}
	})
	r.stub.talks(nil)
	r.write("Third")
	r.notes("Your message was not sent.")
	close(taking)
	r.must(r.Click(r.ctx, q(".notice button")))
	r.shows("user|First", "assistant|You said: First", "user|Second", "assistant|Second answer",
		"user|Third", "assistant|You said: Third")
	r.once(3)
	if got := r.stub.bodies(); len(got) != 6 {
		r.Errorf("said: %q", got)
	}
	r.quiet("ERR_EMPTY_RESPONSE")
}

// lostStream: nobody can come back to it, and the answer stands in the history.
func lostStream(r *room) {
	r.stub.talks(func(c *call) {
		c.begin()
		c.delta("1.4.0000000a", "One ")
		c.says("assistant", "One two.")
		c.cut()
	})
	r.visit()
	r.open()
	r.write("Count")
	r.shows("user|Count", "assistant|One two.")
	r.until(idle)
	r.once(1)
	r.quiet("ERR_INCOMPLETE_CHUNKED_ENCODING", "404")
}

// answerBegunAnew: what was said in the step that begins anew is dropped, and nothing else.
func answerBegunAnew(r *room) {
	seen := make(chan struct{})
	r.stub.talks(func(c *call) {
		c.begin()
		c.delta("1.5.00000001", "Wait. ")
		c.event("1.6.00000001", "step", map[string]any{"callId": "1", "skill": "search", "status": "succeeded"})
		c.delta("3.4.00000002", "Wrong")
		c.event("3.0.00000000", "restart", map[string]any{})
		c.delta("3.5.00000003", "Right")
		c.wait(seen)
		c.finish("3.5.00000003", "Right")
	})
	r.visit()
	r.open()
	r.write("Well?")
	r.until(q(".say[aria-hidden]") + `.textContent === "Wait. \n\nRight"`)
	close(seen)
	r.shows("user|Well?", "assistant|Right")
	r.quiet()
}

func offline(r *room) {
	r.visit()
	r.open()
	r.must(r.Offline(r.ctx, true))
	r.until(q(".status") + `.textContent === "You are offline."`)
	r.must(r.Eval(r.ctx, q("textarea")+".focus()", nil))
	r.must(r.Type(r.ctx, "Hello"))
	r.must(r.Press(r.ctx, "Enter"))
	r.notes("You are offline. Your message was not sent.")
	r.must(r.Offline(r.ctx, false))
	r.until(`navigator.onLine`)
	r.must(r.Click(r.ctx, q(".notice button")))
	r.shows("user|Hello", "assistant|You said: Hello")
	r.once(1)
	r.quiet()
}

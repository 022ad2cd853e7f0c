package widget_test

import (
	"net/http"
)

func tooMany(r *room) {
	r.stub.refuse = func(w http.ResponseWriter, _ int) bool {
		r.stub.refuse = nil // the next time
		limited(w, "rate_limit_exceeded", "2")
		return true
	}
	r.visit()
	r.open()
	r.write("Hello")
	r.notes("too many messages")
	r.shot("limit-light-1440")
	r.until(q(".notice button") + `.disabled && ` + q(".notice button") + `.textContent === "Try again (2)"`)
	r.until(`!` + q(".notice button") + `.disabled`)
	r.must(r.Click(r.ctx, q(".notice button")))
	r.shows("user|Hello", "assistant|You said: Hello")
	r.until(`!` + q(".notice"))
	r.once(1)
	r.quiet("429")
}

func conversationSpent(r *room) {
	r.stub.refuse = func(w http.ResponseWriter, n int) bool {
		if n == 2 {
			limited(w, "insufficient_quota", "")
		}
		return n == 2
	}
	r.visit()
	r.open()
	r.write("First")
	r.shows("user|First", "assistant|You said: First")
	r.write("Second")
	r.notes("too long")
	r.must(r.Click(r.ctx, q(".notice button")))
	r.shows()
	r.until(q("textarea") + `.value === "Second"`)
	r.must(r.Press(r.ctx, "Enter"))
	r.shows("user|Second", "assistant|You said: Second")
	if v := r.stub.visitors(); v != 2 {
		r.Errorf("%d visitors, want two", v)
	}
	r.quiet("429")
}

func refusedForGood(r *room) {
	status := http.StatusForbidden
	r.stub.refuse = func(w http.ResponseWriter, _ int) bool {
		w.WriteHeader(status)
		return true
	}
	r.visit()
	r.open()
	r.write("Hello")
	r.notes("The chat is not available here.")
	status = http.StatusUnprocessableEntity
	r.write("Hello")
	r.notes("This message can't be sent.")
	r.until(`!` + q(".notice button"))
	status = http.StatusInternalServerError
	r.write("Hello")
	r.notes("The chat is not available at the moment. Your message was not sent.")
	r.until(q(".notice button"))
	r.once(3)
	r.quiet("403", "422", "500")
}

package widget_test

import (
	"net/http"
)

// tooMany: the visitor is told when the message can be sent.
func tooMany(r *room) {
	r.stub.refuses(func(w http.ResponseWriter, _ int) bool {
		r.stub.refuses(nil) // the next time
		limited(w, "rate_limited", "2")
		return true
	})
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

// conversationSpent: another conversation is another visitor's.
func conversationSpent(r *room) {
	r.stub.refuses(func(w http.ResponseWriter, n int) bool {
		if n == 2 {
			limited(w, "spent", "")
		}
		return n == 2
	})
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

// budgetSpent: another conversation does not help, whether this one has begun or not.
func budgetSpent(r *room) {
	r.stub.refuses(func(w http.ResponseWriter, n int) bool {
		if n != 2 {
			limited(w, "insufficient_quota", "3600")
		}
		return n != 2
	})
	r.visit()
	r.open()
	r.write("First")
	r.notes("The chat is not available at the moment. Your message was not sent.")
	r.until(`!` + q(".notice button"))
	r.write("Second")
	r.until(`!` + q(".notice"))
	r.write("Third")
	r.notes("The chat is not available at the moment. Your message was not sent.")
	r.until(`!` + q(".notice button"))
	r.once(3)
	r.quiet("429")
}

// refusedForGood: what can't help is not offered.
func refusedForGood(r *room) {
	statuses := []int{http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError}
	r.stub.refuses(func(w http.ResponseWriter, n int) bool {
		w.WriteHeader(statuses[n-1])
		return true
	})
	r.visit()
	r.open()
	r.write("Hello")
	r.notes("The chat is not available here.")
	r.write("Hello")
	r.notes("This message can't be sent.")
	r.until(`!` + q(".notice button"))
	r.write("Hello")
	r.notes("The chat is not available at the moment. Your message was not sent.")
	r.until(q(".notice button"))
	r.once(3)
	r.quiet("403", "422", "500")
}

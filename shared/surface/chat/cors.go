package chat

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Pages of other origins chat with the key of their site. Two things keep the pages of others out.
//
//   - The key names the origins of its pages. A request with the key from any other origin is refused
//     with 403 before it does anything (package auth).
//   - A browser shows a page only those answers that name its origin. Answers to a request with a site
//     key name the origin once the key has been found to name it, and errors of that request too.
//     Answers to requests without a valid key say only that, so every page may read them: a page whose
//     key was revoked can tell its operator why. All other answers name no origin.
//
// Before such a request a browser asks which methods and headers are allowed (a preflight). It sends no
// key with that, so that nothing is known of the site. The answer is the same for every origin: it
// tells what this comment tells, and the request that follows is checked as above. Cookies are never
// sent along, because no answer allows credentials.

// preflight answers a browser that asks what a page of another origin may send. It returns false for
// all other requests.
func preflight(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if r.Method != http.MethodOptions || origin == "" || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	head := w.Header()
	head.Add("Vary", "Origin, Access-Control-Request-Headers")
	head.Set("Access-Control-Allow-Origin", origin)
	head.Set("Access-Control-Allow-Methods", "GET, POST")
	head.Set("Access-Control-Allow-Headers", strings.Join(slices.Concat(requestHeaders, ofClients(r.Header)), ", "))
	head.Set("Access-Control-Max-Age", "7200") // seconds; browsers keep it no longer
	w.WriteHeader(http.StatusNoContent)
	return true
}

var (
	// requestHeaders are the headers that pages may send.
	requestHeaders = []string{
		"Authorization", "Content-Type", sessionHeader, threadHeader, strategyHeader, "Idempotency-Key", "Last-Event-ID",
		"User-Agent", "OpenAI-Organization", "OpenAI-Project",
	}
	// clientHeader is a header with which the client of OpenAI tells of itself; new ones are added often.
	clientHeader = pattern.New(`^x-stainless-[a-z0-9-]{1,64}$`)
)

// exposedHeaders are the headers of answers that pages may read.
const exposedHeaders = sessionHeader + ", " + threadHeader + ", " + traceHeader + ", " + executionHeader +
	", Retry-After, Idempotency-Replayed"

// ofClients returns the headers of clients that a preflight asks for.
func ofClients(h http.Header) (names []string) {
	for name := range strings.SplitSeq(strings.Join(h.Values("Access-Control-Request-Headers"), ","), ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); len(names) < 40 && clientHeader().MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// readable lets the page that sent a request read the answer. It is called once nothing in the answer
// is for others: the page's site key names its origin, or there is no valid key.
func readable(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "null" {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Expose-Headers", exposedHeaders)
	}
}

// refuseAnyone answers with a problem that says nothing of the site: every page may read it.
func (h *Handler) refuseAnyone(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	readable(w, r)
	h.refuse(w, r, p)
}

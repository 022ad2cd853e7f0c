package browser

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// hear records the events of the page.
func (p *Page) hear(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Method {
	case "Page.loadEventFired":
		p.loads++
		close(p.news)
		p.news = make(chan struct{})
	case "Inspector.targetCrashed":
		close(p.crashed)
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		if json.Unmarshal(e.Params, &sent) == nil {
			p.requests = append(p.requests, sent.Request.URL)
		}
	case "Runtime.exceptionThrown":
		var t struct{ ExceptionDetails thrown }
		if json.Unmarshal(e.Params, &t) == nil {
			p.wrong = append(p.wrong, "exception: "+t.ExceptionDetails.String())
		}
	case "Runtime.consoleAPICalled":
		var c struct {
			Type string
			Args []remote
		}
		if json.Unmarshal(e.Params, &c) == nil && slices.Contains([]string{"error", "warning", "assert"}, c.Type) {
			said := make([]string, len(c.Args))
			for i, a := range c.Args {
				said[i] = a.String()
			}
			p.wrong = append(p.wrong, "console."+c.Type+": "+strings.Join(said, " "))
		}
	case "Log.entryAdded":
		var l struct {
			Entry struct{ Source, Level, Text, URL string }
		}
		if json.Unmarshal(e.Params, &l) == nil && (l.Entry.Level == "error" || l.Entry.Level == "warning") {
			p.wrong = append(p.wrong, fmt.Sprintf("%s %s: %s %s", l.Entry.Source, l.Entry.Level, l.Entry.Text, l.Entry.URL))
		}
	}
}

// thrown describes an exception.
type thrown struct {
	Text      string
	Exception remote
}

func (t thrown) String() string { return strings.TrimSpace(t.Text + " " + t.Exception.String()) }

// remote is a value of the page.
type remote struct {
	Description string
	Value       json.RawMessage
}

func (r remote) String() string {
	if r.Description != "" {
		return r.Description
	}
	return string(r.Value)
}

// Complaints returns the errors and warnings since the page was opened: console messages and
// exceptions of its scripts, and the browser's messages about failed requests and policy
// violations.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.wrong)
}

// Requests returns the URLs that the page has requested since it was opened, in order.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

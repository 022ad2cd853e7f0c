package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// event is a log record with all its attributes.
type event struct {
	slog.Record
	attrs []slog.Attr
}

func (e event) text(key string) string {
	for _, a := range e.attrs {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func (e event) number(key string) int64 {
	n, _ := strconv.ParseInt(e.text(key), 10, 64)
	return n
}

func (e event) time(key string) (time.Time, bool) {
	for _, a := range e.attrs {
		if a.Key == key && a.Value.Kind() == slog.KindTime {
			return a.Value.Time(), true
		}
	}
	return time.Time{}, false
}

func (e event) took() string { return took(time.Duration(e.number("duration_ms")) * time.Millisecond) }

// line is how an event is printed.
type line struct {
	indent int
	opens  bool // begins or ends the story of its trace
	whole  bool // is not cut
	spans  []span
}

// lines format the events of a beat. Events that are not listed are formatted by other.
var lines = map[string]func(event) line{
	"taken over from a dead process": func(e event) line {
		return line{spans: []span{{bold, "taken over "}, {plain, "from a process of this host that has died: " + join(
			count(e.number("lanes"), "lane")+" freed", count(e.number("rows"), "claim")+" given back", count(e.number("turns"),
				"turn")+" to go on with")}}}
	},
	"the demo is being made": func(event) line {
		return line{spans: []span{{bold, "demo "}, {plain, "the ice cream shop opens: its runs show below and in the Engine Room, which fills"}}}
	},
	"the demo is ready": func(e event) line {
		return line{whole: true, spans: []span{{bold, "demo ready "}, {plain, "after " + e.text("took") +
			": see it in the Engine Room. Nothing in it is real. It came about by requests to the API, " +
			"but for the usage of the days before, which says so."}}}
	},
	"courier claimed": func(e event) line {
		l := line{spans: []span{{bold, "courier "}, {plain, "claimed " + e.text("title")}, {dim, " → it works over the API, with its own token"}}}
		if n := e.number("done"); n > 0 {
			l.spans = append(l.spans, span{yellow, " goes on after " + count(n, "step")})
		}
		return l
	},
	"courier done": func(e event) line {
		return line{spans: []span{{bold, "courier "}, {green, "done "}, {plain, e.text("title")}}}
	},
	"courier left": func(e event) line {
		return line{spans: []span{{bold, "courier "}, {plain, "left: " + e.text("reason")}}}
	},
	"courier stopped": func(e event) line {
		return line{spans: []span{{bold, "courier "}, {yellow, "stopped "}, {plain, e.text("title") + ": " + e.text("order")}}}
	},
	"cycle ended": func(e event) line {
		var done []string
		for _, one := range []struct{ key, words string }{
			{"assigned", " assigned"}, {"recovered", " taken back"}, {"requeued", " due again"}, {"unclaimed", " not claimed in time"},
			{"timed_out", " timed out"}, {"failed", " failed"}, {"paused", " paused"},
		} {
			if n := e.number(one.key); n > 0 {
				done = append(done, count(n, "task")+one.words)
			}
		}
		if n := e.number("gone"); n > 0 {
			done = append(done, count(n, "agent")+" no longer heard of")
		}
		return line{spans: []span{{bold, "coordinator "}, {plain, strings.Join(done, ", ")}}}
	},
	"webhook received": func(e event) line {
		return line{spans: []span{{bold, "webhook "}, {cyan, e.text("trace_id")},
			{plain, " received " + e.text("event") + " of " + e.text("source")}}}
	},
	"webhook done": func(e event) line {
		return line{spans: []span{{bold, "webhook "}, {cyan, e.text("trace_id")}, {green, " done "},
			{plain, e.text("event") + " of " + e.text("source")},
			{dim, " → " + cmp.Or(e.text("action"), "no rule fits")}}}
	},
	"outbox row sent": func(e event) line {
		return detail(dim, "sent: "+e.text("topic"))
	},
	"task begun": func(e event) line {
		l := line{opens: true, spans: []span{{bold, "task "}, {cyan, e.text("trace_id")}, {plain, " " + e.text("title")},
			{dim, " → agent " + e.text("agent")}}}
		if e.text("resumed") == "true" {
			l.spans = append(l.spans, span{yellow, " goes on"})
		}
		return l
	},
	"task handed on": func(e event) line {
		return detail(plain, "handed on after "+count(e.number("steps"), "step")+": "+e.text("reason"))
	},
	"task stopped": func(e event) line { return detail(yellow, "stopped: "+e.text("reason")) },
	"task waits":   func(e event) line { return detail(yellow, strings.TrimSuffix("waits: "+e.text("reason"), ": ")) },
	"task done": func(e event) line {
		return line{indent: 1, spans: []span{{green, "done "}, {plain, e.text("title")}, {dim, ": " + e.text("answer")}}}
	},
	"task failed": func(e event) line {
		return line{indent: 1, spans: []span{{red, "failed "}, {plain, e.text("title") + ": " + e.text("reason")}}}
	},
	"turn goes on": func(e event) line {
		return line{opens: true, spans: []span{{bold, "turn "}, {cyan, e.text("trace_id")},
			{plain, fmt.Sprintf(" goes on, attempt %d", e.number("attempt"))}}}
	},
	"beat started": func(e event) line {
		l := line{opens: true, spans: []span{{bold, "beat "}, {cyan, e.text("trace_id")},
			{plain, " · " + count(e.number("objectives"), "objective") + " active"}}}
		if attempt := e.number("attempt"); attempt > 1 {
			l.spans = append(l.spans, span{yellow, fmt.Sprintf(" · attempt %d: it was cut off before", attempt)})
		}
		return l
	},
	"work on objective": func(e event) line {
		spans := []span{{bold, fmt.Sprintf("%-9s", e.text("phase"))}, {plain, e.text("objective")}}
		if step := e.text("step"); step != "" {
			spans = append(spans, span{dim, " → "}, span{plain, step})
		}
		return line{indent: 1, spans: spans}
	},
	"run resumed": func(e event) line {
		return detail(yellow, fmt.Sprintf("resumed after step %d, attempt %d", e.number("step"), e.number("attempt")))
	},
	"run interrupted": func(e event) line {
		return detail(yellow, "interrupted: "+e.text("error"))
	},
	"model answered": func(e event) line {
		what := "answers"
		if n := e.number("calls"); n > 0 {
			what = "asks for " + count(n, "call")
		}
		return detail(plain, fmt.Sprintf("model %s %s", e.text("model"), what), count(e.number("tokens"), "token"), e.took())
	},
	"model failed": func(e event) line {
		return detail(red, "the model failed: "+e.text("error"))
	},
	"skill name matched": func(e event) line {
		return detail(plain, fmt.Sprintf("skill %s is meant by %q", e.text("skill"), e.text("asked")))
	},
	"skill done": func(e event) line {
		return detail(plain, "skill "+e.text("skill"), e.took())
	},
	"skill failed": func(e event) line {
		return detail(yellow, fmt.Sprintf("skill %s failed: %s", e.text("skill"), cmp.Or(e.text("reason"), e.text("error"))))
	},
	"answer asked for too many calls": func(e event) line {
		return detail(yellow, fmt.Sprintf("the model asks for %d calls in one answer: those beyond the limit are not made", e.number("calls")))
	},
	"answer told its prompt": func(event) line {
		return detail(yellow, "an answer was about to tell its system prompt: the rest of it is withheld")
	},
	"skill panicked": func(e event) line {
		return detail(red, fmt.Sprintf("skill %s panicked: %s", e.text("skill"), e.text("panic")))
	},
	"call refused": func(e event) line {
		return detail(yellow, fmt.Sprintf("call of %s refused: %s", e.text("tool"), e.text("note")))
	},
	"call waits for approval": func(e event) line {
		return detail(yellow, fmt.Sprintf("call of %s waits for a person: approval %s", e.text("skill"), e.text("approval")))
	},
	"arguments repaired": func(e event) line {
		return detail(dim, fmt.Sprintf("arguments of %s repaired", e.text("skill")))
	},
	"conversation compacted": func(e event) line {
		return detail(dim, fmt.Sprintf("conversation compacted: %s became notes", count(e.number("messages"), "message")))
	},
	"results cut": func(e event) line {
		return detail(dim, fmt.Sprintf("results cut to %s each: the model's window is full", count(e.number("tokens_each"), "token")))
	},
	"conversation not compacted: no summary came": func(event) line {
		return detail(yellow, "conversation not compacted: the model gave no summary")
	},
	"what a call used is not counted yet": func(e event) line {
		return detail(yellow, fmt.Sprintf("%s are not counted yet: %s", count(e.number("tokens"), "token"), e.text("error")))
	},
	"what a stopped run used is not counted": func(e event) line {
		return detail(red, "what a stopped run used is not counted: "+e.text("error"))
	},
	"what a call used is still not counted": func(e event) line {
		return detail(red, "what a call used is not counted: "+e.text("error"))
	},
	"purged what is old": func(e event) line {
		return detail(dim, "let go of what is old")
	},
	"outbox sent": func(e event) line {
		return detail(plain, fmt.Sprintf("decided before: %s of %s done", e.text("sent"), e.text("claimed")))
	},
	"the sender of messages could not be kicked": func(event) line {
		return detail(yellow, "the rest is sent within a minute")
	},
	"call does not wait for approval": func(e event) line {
		return detail(yellow, fmt.Sprintf("call of %s is refused: too many wait for a person", e.text("skill")))
	},
	"approvals expired": func(e event) line {
		return detail(yellow, fmt.Sprintf("%s expired unanswered", count(e.number("count"), "approval")))
	},
	"work closed": func(e event) line {
		return detail(yellow, fmt.Sprintf("left work closed: %s", e.text("reason")))
	},
	"work ended": func(e event) line {
		status := e.text("status")
		s := green
		if status != "completed" {
			s = yellow
		}
		l := detail(s, status)
		if said := cmp.Or(e.text("reason"), e.text("answer")); said != "" {
			l.spans = append(l.spans, span{dim, ": "}, span{plain, said})
		}
		return l
	},
	"work given up": func(e event) line {
		return detail(yellow, "given up on "+e.text("objective")+": "+e.text("reason"))
	},
	"work left: interrupted": func(e event) line {
		return detail(yellow, "left "+e.text("objective")+" for the next beat: "+e.text("error"))
	},
	"work left: it can't be read": func(e event) line {
		return detail(red, "left "+e.text("objective")+": "+e.text("error"))
	},
	"work left: its lane is lost": func(e event) line {
		return detail(yellow, "left "+e.text("objective")+", its lane is lost: "+e.text("error"))
	},
	"automation runs": func(e event) line {
		return line{indent: 1, spans: []span{{bold, "automate  "}, {plain, e.text("automation")}, {dim, " → "}, {plain, e.text("skill")}}}
	},
	"automation cancelled": func(e event) line {
		return line{indent: 1, spans: []span{{bold, "automate  "}, {plain, e.text("automation")},
			{dim, " is not gone on with: " + e.text("reason")}}}
	},
	"automation ended": func(e event) line {
		if status := e.text("status"); status != "completed" {
			return detail(yellow, status+": "+e.text("reason"))
		}
		return detail(green, "completed")
	},
	"skills healed": func(e event) line {
		return detail(yellow, fmt.Sprintf("skills: %d disabled, %d on probation, %d restored, %d providers out",
			e.number("disabled"), e.number("probing"), e.number("restored"), e.number("outages")))
	},
	"orphaned executions closed": func(e event) line {
		return detail(yellow, "closed what nobody went on with: "+count(e.number("count"), "execution"))
	},
	"silent execution ended": func(e event) line {
		return detail(yellow, "nothing was heard of an execution in its time: it is ended")
	},
	"a part of healing failed": func(e event) line {
		return detail(red, "could not be healed: "+e.text("error"))
	},
	"a person is needed": func(e event) line {
		return line{indent: 1, whole: true, spans: []span{{red, e.Message + ": " + e.text("why")}}}
	},
	"reservation left to lapse": func(e event) line {
		return detail(dim, "a reservation of tokens is left to lapse: "+e.text("error"))
	},
	"looks at the beats": func(e event) line {
		return line{indent: 1, spans: []span{{bold, fmt.Sprintf("%-9s", e.text("phase"))}, {plain, e.text("about")}}}
	},
	"beat throttled": func(e event) line {
		return line{indent: 1, spans: []span{{yellow, "slowed down by a budget: " + e.text("pace")}}}
	},
	"phase ended": func(e event) line {
		tail := phaseText(e.number("considered"), e.number("done"), e.number("failed"), e.number("left"), e.number("tokens"),
			time.Duration(e.number("duration_ms"))*time.Millisecond)
		return line{indent: 1, spans: []span{{bold, fmt.Sprintf("%-9s", e.text("phase"))}, {dim, tail}}}
	},
	"beat ended": func(e event) line {
		outcome := e.text("outcome")
		spans := []span{{bold, "beat "}, {cyan, e.text("trace_id")}, {outcomeStyle(outcome), " " + outcome}}
		if reason := e.text("reason"); reason != "" {
			spans = append(spans, span{plain, ": " + reason})
		}
		if at, ok := e.time("put_off_to"); ok {
			spans = append(spans, span{plain, "; put off to " + timeOfDay(at)})
		}
		var facts []string
		if n := e.number("left"); n > 0 {
			facts = append(facts, fmt.Sprintf("%d left for the next", n))
		}
		if n := e.number("tokens"); n > 0 {
			facts = append(facts, count(n, "token"))
		}
		return line{opens: true, spans: append(spans, span{dim, " · " + join(append(facts, e.took())...)})}
	},
	"a beat panicked": func(e event) line {
		return line{spans: []span{{red, "a beat panicked: " + e.text("panic")}}}
	},
	"beat failed": func(e event) line {
		return line{spans: []span{{red, "beat failed: " + e.text("error")}}}
	},
	"next beat": func(e event) line {
		return line{spans: []span{{dim, "next beat at " + e.text("at")}}}
	},
	"lane taken": func(e event) line {
		text := "it is held by " + e.text("holder") + "; `bin/lanekeeper locks` shows until when"
		return line{indent: 1, whole: true, spans: []span{{plain, text}}}
	},
	"request": func(e event) line {
		return line{spans: []span{{dim, fmt.Sprintf("%s %s · %s, %s · %s", e.text("method"), e.text("route"),
			e.text("status"), e.took(), e.text("trace_id"))}}}
	},
	"beat lost the lane and changed nothing after that": func(e event) line {
		return line{opens: true, spans: []span{{red, e.Message}}}
	},
}

// phaseText describes what a phase did. It omits counts of zero.
func phaseText(considered, done, failed, left, tokens int64, d time.Duration) string {
	if considered == 0 {
		return "nothing to do"
	}
	facts := []string{fmt.Sprintf("%d of %d done", done, considered)}
	if failed > 0 {
		facts = append(facts, fmt.Sprintf("%d failed", failed))
	}
	if left > 0 {
		facts = append(facts, fmt.Sprintf("%d left", left))
	}
	return join(append(facts, count(tokens, "token"), took(d))...)
}

// outcomeStyle highlights the outcomes that may need a person's attention.
func outcomeStyle(outcome string) style {
	switch heartbeat.Outcome(outcome) {
	case heartbeat.Completed, heartbeat.Idle:
		return green
	case heartbeat.Lost:
		return red
	}
	return yellow
}

// detail returns a line within a piece of work.
func detail(s style, what string, facts ...string) line {
	l := line{indent: 2, spans: []span{{s, what}}}
	if len(facts) > 0 {
		l.spans = append(l.spans, span{dim, " · " + join(facts...)})
	}
	return l
}

// other formats any event: its message and its attributes.
func other(e event) line {
	s := plain
	switch {
	case e.Level >= slog.LevelError:
		s = red
	case e.Level >= slog.LevelWarn:
		s = yellow
	case e.Level < slog.LevelInfo:
		s = dim
	}
	l := line{spans: []span{{s, e.Message}}}
	for _, a := range e.attrs {
		switch a.Key {
		case "execution_id", "workspace":
			continue
		}
		value := a.Value.String()
		if strings.ContainsAny(value, " =\"") || value == "" {
			value = strconv.Quote(value)
		}
		l.spans = append(l.spans, span{dim, "  " + a.Key + "="}, span{plain, value})
	}
	return l
}

// timeOfDay formats a time in the local time zone.
func timeOfDay(at time.Time) string { return at.Local().Format("15:04:05") }

func join(facts ...string) string { return strings.Join(facts, ", ") }

// count formats a number with its noun: "1 token", "12,345 tokens".
func count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return thousands(n) + " " + noun
}

func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// took formats a duration.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return d.Round(time.Second).String()
}

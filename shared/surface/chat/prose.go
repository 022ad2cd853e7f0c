package chat

import (
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// prose makes one text that only grows of what a model writes, for protocols that can take nothing
// back: where an answer begins anew, what it has in common with the one before is not told again, and
// where they part the new one follows whole.
type prose struct {
	all  strings.Builder // what was told
	said string          // of it, what the present answer says
	seq  int             // of the present answer
	old  string          // what the answer had said that begins anew
}

// add is what comes to the text with an event.
func (p *prose) add(e turn.Event) string {
	switch {
	case e.Restart:
		p.old, p.said = p.said+strings.TrimPrefix(p.old, p.said), ""
		return ""
	case e.Text == "":
		return ""
	case e.After.Seq != p.seq:
		p.seq, p.said, p.old = e.After.Seq, "", ""
		return p.say(e.Text, p.all.Len() > 0)
	}
	if p.old == "" {
		return p.say(e.Text, p.said == "" && p.all.Len() > 0)
	}
	now := p.said + e.Text
	switch {
	case strings.HasPrefix(p.old, now): // it says the same again
		p.said = now
		return ""
	case strings.HasPrefix(now, p.old):
		more := now[len(p.old):]
		p.said, p.old = now[:len(p.old)], ""
		return p.say(more, false)
	}
	p.said, p.old = "", ""
	return p.say(now, true)
}

// say adds to the present answer, which may be the first of it.
func (p *prose) say(text string, first bool) string {
	p.said += text
	if first {
		text = "\n\n" + text
	}
	p.all.WriteString(text)
	return text
}

// end is what comes to the text when the turn ends. An answer that was withdrawn may be the one that
// another process has written down.
func (p *prose) end(r turn.Reply) string {
	text := visibleText(r)
	if r.Status == execution.Completed && p.said != "" || strings.TrimSpace(text) == strings.TrimSpace(p.said) {
		return ""
	}
	if old := strings.TrimSpace(p.old); old != "" && strings.HasPrefix(text, old) {
		return p.say(text[len(old):], false)
	}
	p.said = ""
	return p.say(text, p.all.Len() > 0)
}

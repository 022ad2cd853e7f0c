package openai

import (
	"strings"
	"unicode"
)

const (
	thinkingBegins = "<think>"
	thinkingEnds   = "</think>"
	maxLead        = 100 // bytes of white space and tag with which a thought begins
)

// visible takes what a model thinks out of its text: what is between <think> and </think> at the beginning. Some
// servers leave it there.
type visible struct {
	phase phase
	held  string // the end of what came, as far as it is not decided yet what it is
}

type phase int

const (
	beginning   phase = iota // the text may begin with a thought
	inThought                // the thought has not ended
	thoughtOver              // the thought has ended, and no text has come
	speaking                 // nothing is taken out any more
)

// next returns what is visible with the next piece of the text.
func (v *visible) next(piece string) string {
	if v.phase == speaking {
		return piece
	}
	v.held += piece
	if v.phase == beginning {
		began := strings.TrimLeftFunc(v.held, unicode.IsSpace)
		rest, thinks := strings.CutPrefix(began, thinkingBegins)
		switch {
		case thinks:
			v.phase, v.held = inThought, rest
		case strings.HasPrefix(thinkingBegins, began) && len(v.held) < maxLead:
			return ""
		default:
			return v.rest()
		}
	}
	if v.phase == inThought {
		_, after, ended := strings.Cut(v.held, thinkingEnds)
		if !ended {
			v.held = v.held[max(0, len(v.held)-len(thinkingEnds)+1):]
			return ""
		}
		v.phase, v.held = thoughtOver, after
	}
	v.held = strings.TrimLeftFunc(v.held, unicode.IsSpace)
	if v.held == "" {
		return ""
	}
	return v.rest()
}

// rest returns what was held back and is text. After it nothing is taken out any more.
func (v *visible) rest() string {
	rest := v.held
	if v.phase == inThought {
		rest = ""
	}
	v.phase, v.held = speaking, ""
	return rest
}

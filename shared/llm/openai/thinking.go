package openai

import (
	"strings"
	"unicode"
)

// thoughtTags are the names of the tags around what a model thinks: reasoning is that of Bedrock.
var thoughtTags = [...]string{"think", "reasoning"}

// maxLead is how many bytes of white space and tag a thought begins with at most.
const maxLead = 100

// visible takes what a model thinks out of its text: what is between <think> and </think>, or such tags, at the
// beginning. Some servers leave it there.
type visible struct {
	phase phase
	ends  string // the tag that ends the thought
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
		if !v.begins(began) {
			if len(v.held) < maxLead && mayBegin(began) {
				return ""
			}
			return v.rest()
		}
	}
	if v.phase == inThought {
		_, after, ended := strings.Cut(v.held, v.ends)
		if !ended {
			v.held = v.held[max(0, len(v.held)-len(v.ends)+1):]
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

// begins reports whether a text begins with a thought, and then holds what comes behind the tag.
func (v *visible) begins(text string) bool {
	for _, tag := range thoughtTags {
		if rest, ok := strings.CutPrefix(text, "<"+tag+">"); ok {
			v.phase, v.ends, v.held = inThought, "</"+tag+">", rest
			return true
		}
	}
	return false
}

// mayBegin reports whether a text may become one that begins with a thought.
func mayBegin(text string) bool {
	for _, tag := range thoughtTags {
		if strings.HasPrefix("<"+tag+">", text) {
			return true
		}
	}
	return false
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

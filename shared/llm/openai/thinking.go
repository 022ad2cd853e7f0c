package openai

import (
	"strings"
	"unicode"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// thoughtTags are the names of the tags around what a model thinks: reasoning is that of Bedrock.
var thoughtTags = [...]string{"think", "reasoning"}

// maxLead is how many bytes of white space and tag a thought begins with at most.
const maxLead = 100

// thinkers matches models whose template begins within the thought, so that they send only its end.
var thinkers = pattern.New(`(?i)\b(?:r1|qwq|thinking|minimax-m\d)\b`)

// visible takes what a model thinks out of its text: what is between <think> and </think>, or such tags, at the
// beginning. Some servers leave it there.
type visible struct {
	phase    phase
	led      bool            // as far as is known of the model, the text begins within a thought
	ends     string          // the tag that ends the thought
	held     string          // the end of what came, as far as it is not decided yet what it is
	thought  strings.Builder // what is withheld of a text that begins within a thought
	unled    bool            // no thought came where the text was withheld for it
	lone     bool            // the end of a thought came whose beginning did not
	searched int             // the bytes of the told text that have no such end
}

type phase int

const (
	beginning   phase = iota // the text may begin with a thought
	withheld                 // the text has begun within a thought, as far as is known of the model
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
			if !v.led {
				return v.rest(false)
			}
			v.phase = withheld
		}
	}
	if v.phase == withheld {
		after, ended := cutEnd(v.held)
		if !ended {
			keep := max(0, len(v.held)-longestEnd+1)
			v.thought.WriteString(v.held[:keep])
			v.held = v.held[keep:]
			return ""
		}
		v.phase, v.held, v.lone = thoughtOver, after, true
		v.thought.Reset()
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
	return v.rest(false)
}

// begins reports whether a text begins with a thought, or with its end, and then holds what comes behind the tag.
func (v *visible) begins(text string) bool {
	for _, tag := range thoughtTags {
		if rest, ok := strings.CutPrefix(text, "<"+tag+">"); ok {
			v.phase, v.ends, v.held = inThought, "</"+tag+">", rest
			return true
		}
		if rest, ok := strings.CutPrefix(text, "</"+tag+">"); ok { // the template has its beginning
			v.phase, v.held, v.lone = thoughtOver, rest, true
			return true
		}
	}
	return false
}

// longestEnd is the length of the longest tag that ends a thought.
const longestEnd = len("</reasoning>")

// cutEnd returns what comes behind the first end of a thought.
func cutEnd(text string) (after string, found bool) {
	for _, tag := range thoughtTags {
		if _, after, found = strings.Cut(text, "</"+tag+">"); found {
			return after, true
		}
	}
	return "", false
}

// answerIn returns what is the answer in a text that has been told, where it begins with a thought whose beginning did not
// come. Its end is a line of its own, outside of code. over says that nothing follows the text.
func (v *visible) answerIn(text string, over bool) (answer string, found bool) {
	from := max(0, v.searched-longestEnd-len("\n\n"))
	v.searched = len(text)
	for _, tag := range thoughtTags {
		before, after, ended := strings.Cut(text[from:], "\n</"+tag+">\n")
		if !ended && over {
			before, ended = strings.CutSuffix(text[from:], "\n</"+tag+">")
			after = ""
		}
		before = text[:from+len(before)]
		if ended && !strings.Contains(before, "<"+tag+">") && strings.Count(before, "```")%2 == 0 {
			v.phase, v.lone = thoughtOver, true
			return strings.TrimLeftFunc(after, unicode.IsSpace), true
		}
	}
	return "", false
}

// mayBegin reports whether a text may become one that begins with a thought.
func mayBegin(text string) bool {
	for _, tag := range thoughtTags {
		if strings.HasPrefix("<"+tag+">", text) || strings.HasPrefix("</"+tag+">", text) {
			return true
		}
	}
	return false
}

// rest returns what was held back and is text. After it nothing is taken out any more. cut says that the model could not
// finish.
func (v *visible) rest(cut bool) string {
	rest := v.thought.String() + v.held
	if v.phase == inThought || v.phase == withheld && cut {
		rest = ""
	}
	v.unled = v.phase == withheld && !cut
	v.phase, v.held = speaking, ""
	return rest
}

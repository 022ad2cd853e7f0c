package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// completionRequest is the body of POST /v1/chat/completions. Other fields are ignored.
type completionRequest struct {
	Model    string `json:"model"` // the name of an agent; empty: the caller's
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	User      string            `json:"user"`
	N         *int              `json:"n"`
	MaxTokens *int              `json:"max_tokens"`
	MaxOutput *int              `json:"max_completion_tokens"` // its newer name
	Tools     []json.RawMessage `json:"tools"`
	Functions []json.RawMessage `json:"functions"`
}

// complete answers POST /v1/chat/completions. The messages are the context, and the last of them is
// answered. What a turn does that does not end with an answer, a visitor is told as the text of a
// completion: a plain sentence of [visibleText].
func (h *Handler) complete(w http.ResponseWriter, r *http.Request, v *visit) {
	var body completionRequest
	free, p := h.read(w, r, v, &body)
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	defer free()
	m := message{model: v.model(body.Model), thread: r.Header.Get(threadHeader), multitask: strategy(r), stream: body.Stream}
	if p = body.said(&m); p == nil {
		if m.tokens, p = tokensOf("body.max_completion_tokens", body.MaxOutput); body.MaxOutput == nil {
			m.tokens, p = tokensOf("body.max_tokens", body.MaxTokens)
		}
	}
	if p == nil {
		p = v.identify(r, body.User)
	}
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	h.talk(w, r, v, m, &completion{usage: body.StreamOptions.IncludeUsage, model: m.model, created: h.Clock().Unix()})
}

// said puts into m the message that is to be answered, and what came before it.
func (q *completionRequest) said(m *message) *problem.Problem {
	switch {
	case len(q.Tools)+len(q.Functions) > 0:
		return toolsRefused
	case q.N != nil && *q.N != 1:
		return bad("body.n", "one answer is given, no more")
	case len(q.Messages) == 0:
		return bad("body.messages", "expected a list with one message at least")
	}
	before, first := make([]turn.Said, 0, len(q.Messages)-1), 0
	for i, one := range q.Messages {
		at := fmt.Sprintf("body.messages[%d]", i)
		if !slices.Contains([]string{"system", "developer", "user", "assistant", "tool", "function"}, one.Role) {
			return bad(at+".role", "is system, developer, user, assistant or tool")
		}
		text, p := textOf(at+".content", one.Content)
		switch {
		case p != nil:
			return p
		case i < len(q.Messages)-1:
			if text != "" {
				if first == len(before) && instructs(one.Role) {
					first++
				}
				before = append(before, saidBy(one.Role, text))
			}
			continue
		case one.Role == "assistant":
			return bad(at+".role", "the last message is answered: it can't be the assistant's")
		}
		m.body = text
		if p := m.takes(before, first); p != nil {
			return p
		}
		return checkMessage(at+".content", text)
	}
	return nil // not reached
}

var toolsRefused = wrongField(http.StatusUnprocessableEntity, "unsupported_tools", "body.tools",
	"a request brings no tools: the agent has those that its workspace gives it")

// completion is the voice of POST /v1/chat/completions.
type completion struct {
	usage   bool // is told in the stream
	model   string
	created int64
	id      string
	prose
}

type completionAnswer struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *completionUsage   `json:"usage,omitempty"`
}

type completionChoice struct {
	Index   int                `json:"index"`
	Message *completionMessage `json:"message,omitempty"`
	Delta   *completionMessage `json:"delta,omitempty"`
	Finish  *string            `json:"finish_reason"`
}

type completionMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type completionUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

func (c *completion) body(object string, choices ...completionChoice) completionAnswer {
	return completionAnswer{ID: c.id, Object: object, Created: c.created, Model: c.model, Choices: choices}
}

func usageOf(r turn.Reply) *completionUsage {
	return &completionUsage{r.Prompt, r.Completion, r.Prompt + r.Completion}
}

func finishOf(r turn.Reply) *string {
	finish := "stop"
	if cut(r) {
		finish = "length"
	}
	return &finish
}

// cut reports whether an answer was cut off at the limit of its length, perhaps before its first word.
func cut(r turn.Reply) bool {
	return r.Status == execution.Completed && r.Reason == reason.CutOff ||
		r.Status == execution.Stalled && strings.HasPrefix(r.Reason, reason.NoRoom)
}

func (c *completion) answer(r turn.Reply) any {
	c.id = completionID(r.Execution)
	text := visibleText(r)
	a := c.body("chat.completion", completionChoice{Message: &completionMessage{"assistant", &text}, Finish: finishOf(r)})
	a.Usage = usageOf(r)
	return a
}

func completionID(execution string) string { return "chatcmpl-" + execution }

func (c *completion) chunk(b *bytes.Buffer, id string, choice completionChoice) {
	sse.Event(b, id, "", c.body("chat.completion.chunk", choice))
}

func (c *completion) begin(b *bytes.Buffer, execution, _ string) {
	c.id = completionID(execution)
	none := ""
	c.chunk(b, "", completionChoice{Delta: &completionMessage{"assistant", &none}})
}

func (c *completion) event(b *bytes.Buffer, e turn.Event) {
	if text := c.add(e); text != "" {
		c.chunk(b, e.After.String(), completionChoice{Delta: &completionMessage{Content: &text}})
	}
}

func (c *completion) end(b *bytes.Buffer, r turn.Reply) {
	if text := c.prose.end(r); text != "" {
		c.chunk(b, "", completionChoice{Delta: &completionMessage{Content: &text}})
	}
	c.chunk(b, "", completionChoice{Delta: &completionMessage{}, Finish: finishOf(r)})
	if c.usage {
		last := c.body("chat.completion.chunk")
		last.Choices, last.Usage = []completionChoice{}, usageOf(r)
		sse.Event(b, "", "", last)
	}
	b.WriteString("data: [DONE]\n\n")
}

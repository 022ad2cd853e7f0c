package reason

import (
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// discreetBody returns the body of a journal entry with the known secret values redacted. A text
// that only looks like a secret stays, because a resumed run depends on its journal.
func discreetBody(known *redact.Redactor, body any) any {
	if known == nil {
		return body
	}
	switch b := body.(type) {
	case inputBody:
		b.System, b.Messages = known.Text(b.System), discreetMessages(known, b.Messages)
		return b
	case modelBody:
		b.Message = discreetMessage(known, b.Message)
		return b
	case calledBody:
		b.Call.Arguments = discreetArguments(known, b.Call.Arguments)
		return b
	case resultBody:
		b.Call.Arguments, b.Result.Content = discreetArguments(known, b.Call.Arguments), known.Text(b.Result.Content)
		return b
	case noteBody:
		b.Summary = known.Text(b.Summary)
		return b
	}
	return body
}

func discreetText(known *redact.Redactor, text string) string {
	if known == nil {
		return text
	}
	return known.Text(text)
}

// discreetMessages returns messages with the known secret values redacted. Opaque data that a
// provider expects back is not changed.
func discreetMessages(known *redact.Redactor, messages []llm.Message) []llm.Message {
	if known == nil {
		return messages
	}
	out := make([]llm.Message, len(messages))
	for i, m := range messages {
		out[i] = discreetMessage(known, m)
	}
	return out
}

func discreetMessage(known *redact.Redactor, m llm.Message) llm.Message {
	m.Text, m.Calls, m.Results = known.Text(m.Text), slices.Clone(m.Calls), slices.Clone(m.Results)
	for i := range m.Calls {
		m.Calls[i].Arguments = discreetArguments(known, m.Calls[i].Arguments)
	}
	for i := range m.Results {
		m.Results[i].Content = known.Text(m.Results[i].Content)
	}
	return m
}

func discreetArguments(known *redact.Redactor, arguments llm.Arguments) llm.Arguments {
	return llm.Arguments(known.Text(string(arguments)))
}

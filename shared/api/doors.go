package api

import (
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// A door is a route of the functions chat and webhook. The document describes it, and this package does
// not serve it.
type door struct {
	method, path, id, summary, description string

	takes   []string     // names of headers and of the query's parameters, as in doorParams
	body    reflect.Type // of the request; nil: as in shape, or none
	shape   *huma.Schema // of a request in a protocol of others
	answer  reflect.Type // nil: as in the protocol
	also    int          // a further status of success; 0: none
	streams bool         // the answer may be a stream of events
	stream  bool         // the answer is a stream of events only
	plain   string       // when the answer is a text instead; empty: never
	open    bool         // the request is signed instead of having a token
}

// doorParams are the headers, and the parameters of the query, that doors take.
func doorParams() map[string]*huma.Param {
	text := &huma.Schema{Type: huma.TypeString}
	number := func(least, most float64) *huma.Schema {
		return &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most}
	}
	params := map[string]*huma.Param{
		"X-Session-Id": {Description: "Names the visitor, before user does; the answer tells it", Schema: text},
		"X-Thread-Id":  {Description: "The conversation that goes on; left out: the visitor's. The answer tells it", Schema: text},
		"X-Multitask": {Description: "What becomes of a message that comes while a turn runs; left out: enqueue",
			Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"enqueue", "reject", "interrupt", "rollback", "collect", "steer"}}},
		"Idempotency-Key": {Description: "The same message under the same key is answered once, and told again with Idempotency-Replayed: true",
			Schema: text},
		"Last-Event-ID":  {Description: "The stream begins behind this event", Schema: text},
		"user":           {Description: "Names the visitor", Schema: text},
		"after":          {Description: "As Last-Event-ID", Schema: text},
		"starting_after": {Description: "The stream begins behind the event of this sequence_number", Schema: number(0, 1<<31-1)},
		"stream": {Description: "true: the answer is a stream",
			Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true", "false"}}},
		"cursor": {Description: "nextCursor of the page before", Schema: text},
		"limit":  {Description: "How many; left out: 50", Schema: number(1, 200)},
	}
	for name, p := range params {
		p.Name, p.In = name, "query"
		if strings.Contains(name, "-") {
			p.In = "header"
		}
	}
	return params
}

// chatMessage is the body of a visitor's message.
type chatMessage struct {
	Message   string `json:"message" doc:"What the visitor says: 16 KiB at most"`
	User      string `json:"user,omitempty" doc:"Names the visitor, as the header X-Session-Id does; without both, the visitor is new"`
	Model     string `json:"model,omitempty" doc:"The name of a persona; without it, that of the site key or visitor_chat"`
	Stream    bool   `json:"stream,omitempty" doc:"Answers with the events delta, step, restart and done"`
	Multitask string `json:"multitask,omitempty" enum:"enqueue,reject,interrupt,rollback,collect,steer" doc:"What becomes of a message that comes while a turn runs"`
}

// receipt is the answer to a delivery.
type receipt struct {
	ID       string `json:"id" format:"uuid"`
	Status   string `json:"status" enum:"received,duplicate"`
	Conflict bool   `json:"conflict,omitempty" doc:"A delivery of this id came before, with another body"`
}

// protocol describes a body in the shape of OpenAI's API.
func protocol(text string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Description: text, AdditionalProperties: true}
}

// doors are the routes of chat and webhook.
func doors() []door {
	const get, post, v1 = http.MethodGet, http.MethodPost, "/api/v1"
	const compatible = "In the shapes of OpenAI's API: its clients work as they are. What is refused is answered as {error: {message, type, param, code}}."
	const who, small = "The visitor is X-Session-Id, else user; without both, it is new.", " A body has 256 KiB at most."
	const large = " A body has 4 MiB at most; of what it says was spoken before, the newest 200 messages with 256 KiB together count."
	visitor := []string{"X-Session-Id", "user"}
	says := []string{"X-Session-Id", "X-Thread-Id", "X-Multitask", "Idempotency-Key"}
	talk, history := reflect.TypeFor[talkAnswer](), reflect.TypeFor[page[messageItem]]()
	return []door{
		{method: get, path: "/v1/models", id: "list-models", summary: "The agents that answer here", description: compatible},
		{method: get, path: "/v1/models/{model}", id: "get-model", summary: "One of the agents", description: compatible},
		{method: post, path: "/v1/chat/completions", id: "complete-chat", summary: "Talk with an agent",
			description: compatible + " " + who + large, takes: says, streams: true,
			shape: protocol("model, messages and, if wanted, user, stream, stream_options, max_tokens. tools are refused: the agent has its own. Other fields are ignored.")},
		{method: post, path: "/v1/responses", id: "create-response", summary: "Talk with an agent",
			description: compatible + " " + who + large, takes: says, streams: true,
			shape: protocol("model, input and, if wanted, instructions, previous_response_id, user, stream, max_output_tokens. tools are refused. Other fields are ignored.")},
		{method: get, path: "/v1/responses/{response}", id: "get-response", summary: "An answer that was given before", description: compatible,
			takes: append([]string{"stream", "starting_after", "Last-Event-ID"}, visitor...), streams: true},
		{method: post, path: v1 + "/chat/messages", id: "begin-chat", summary: "Say something as a visitor, in the visitor's conversation",
			description: who + small, takes: says, body: reflect.TypeFor[chatMessage](), answer: talk, streams: true},
		{method: post, path: v1 + "/chat/{thread}/messages", id: "send-chat", summary: "Say something as a visitor",
			description: who + small, takes: []string{"X-Session-Id", "X-Multitask", "Idempotency-Key"},
			body: reflect.TypeFor[chatMessage](), answer: talk, streams: true},
		{method: get, path: v1 + "/chat/{thread}/messages", id: "list-chat", summary: "What was said, oldest first",
			description: "The visitor is named by the parameter user or the header X-Session-Id.",
			takes:       append([]string{"cursor", "limit"}, visitor...), answer: history},
		{method: get, path: v1 + "/chat/{thread}/executions/{execution}/events", id: "follow-chat", summary: "The events of an answer, again or from Last-Event-ID on",
			description: "The visitor is named by the parameter user or the header X-Session-Id.",
			takes:       append([]string{"Last-Event-ID", "after"}, visitor...), stream: true},
		{method: post, path: "/webhooks/{workspace}/{source}", id: "receive-webhook", summary: "Deliver a webhook",
			description: "Signed as the kind of its source says. 202: it is stored, and its work begins; 200: it came before. " +
				"Commands and actions of Slack are answered 200 without a body. A body has 6 MiB at most.",
			open: true, plain: "The challenge that Slack asks for",
			shape:  protocol("What the source sends. The signature is checked over the raw bytes."),
			answer: reflect.TypeFor[receipt](), also: http.StatusAccepted},
	}
}

// describeDoors adds the routes of chat and webhook to the document.
func describeDoors(o *huma.OpenAPI) {
	params := doorParams()
	for _, d := range doors() {
		op := &huma.Operation{
			OperationID: d.id, Method: d.method, Path: d.path, Summary: d.summary, Tags: []string{"chat"},
			Description: strings.TrimSpace(d.description + " Served by chat: with a site key, from its origins, or with an API key or a user's token."),
			Security:    []map[string][]string{{"bearer": {}}}, Responses: map[string]*huma.Response{},
		}
		if d.open {
			op.Tags, op.Description, op.Security = []string{"webhooks"}, d.description+" Served by webhook.", []map[string][]string{{}}
		}
		for part := range strings.SplitSeq(d.path, "/") {
			if name := strings.Trim(part, "{}"); name != part {
				op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
			}
		}
		for _, name := range d.takes {
			op.Parameters = append(op.Parameters, params[name])
		}
		schema := func(of reflect.Type, otherwise *huma.Schema) *huma.Schema {
			if of == nil {
				return otherwise
			}
			return o.Components.Schemas.Schema(of, true, "")
		}
		if d.method == http.MethodPost {
			op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema(d.body, d.shape)}}}
		}
		content := map[string]*huma.MediaType{}
		if !d.stream {
			content["application/json"] = &huma.MediaType{Schema: schema(d.answer, protocol("As OpenAI's API describes it"))}
		}
		if d.stream || d.streams {
			content["text/event-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		}
		for _, status := range []int{http.StatusOK, d.also} {
			if status != 0 {
				op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content}
			}
		}
		if d.plain != "" {
			with := maps.Clone(content)
			with["text/plain; charset=utf-8"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: d.plain}}
			op.Responses["200"].Content = with
		}
		media, refused := problem.MediaType, o.Components.Schemas.Schema(reflect.TypeFor[problem.Problem](), true, "Problem")
		if d.answer == nil && !d.stream {
			media, refused = "application/json", protocol("{error: {message, type, param, code}}")
		}
		for _, status := range []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable,
		} {
			op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{media: {Schema: refused}}}
		}
		o.AddOperation(op)
	}
}

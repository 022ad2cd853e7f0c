package chat

import (
	"bytes"
	"hash/crc32"
	"strconv"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// responseBody is a response, as the open Responses shape has it.
type responseBody struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"` // response
	CreatedAt  int64             `json:"created_at"`
	Status     responseStatus    `json:"status"`
	Error      *responseError    `json:"error"`
	Incomplete *responseReason   `json:"incomplete_details"`
	Model      string            `json:"model"`
	Output     []responseItem    `json:"output"`
	Previous   *string           `json:"previous_response_id"`
	Usage      *responseUsage    `json:"usage"`
	Text       responseFormat    `json:"text"`
	Tools      []struct{}        `json:"tools"`
	ToolChoice string            `json:"tool_choice"`
	Parallel   bool              `json:"parallel_tool_calls"`
	Metadata   map[string]string `json:"metadata"`
	// What a request may ask for, and is not heard here.
	Instructions    *string  `json:"instructions"`
	MaxOutputTokens *int     `json:"max_output_tokens"`
	Temperature     *float64 `json:"temperature"`
	TopP            *float64 `json:"top_p"`
}

type responseStatus string

const (
	inProgress responseStatus = "in_progress"
	completed  responseStatus = "completed"
	incomplete responseStatus = "incomplete"
	failed     responseStatus = "failed"
)

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responseReason struct {
	Reason string `json:"reason"`
}

type responseFormat struct {
	Format struct {
		Type string `json:"type"`
	} `json:"format"`
}

type responseItem struct {
	Type    string         `json:"type"` // message
	ID      string         `json:"id"`
	Status  responseStatus `json:"status"`
	Role    string         `json:"role"`
	Content []responsePart `json:"content"`
}

type responsePart struct {
	Type        string     `json:"type"` // output_text
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
	Logprobs    []struct{} `json:"logprobs"`
}

type responseUsage struct {
	Input        int64 `json:"input_tokens"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int64 `json:"total_tokens"`
}

// response writes the answers of /v1/responses. The sequence number of an event says how many bytes of
// the text the client has after it, so that a client that reconnects continues there, although the
// pieces are then cut in other places. The last byte of the number is a checksum of that text: a model
// that was interrupted before its answer was recorded gives another answer, which is then sent whole.
type response struct {
	responseBody
	after   int // events up to this number are not sent; -1: all are sent
	item    string
	sum     uint32 // of the text
	unsure  bool   // it is not known yet whether the client has a part of this text or of another one
	skipped int    // the bytes of another text that the client has, with the separator before this one
	prose
}

// maxSeq is the largest sequence number: some clients keep it in 32 bits.
const maxSeq = 1<<31 - 1

// sumBits are the bits of a sequence number that hold a checksum.
const sumBits = 8

func newResponse(body responseBody) *response {
	body.Object, body.ToolChoice, body.Text.Format.Type = "response", "auto", "text"
	body.Output, body.Tools, body.Metadata = []responseItem{}, []struct{}{}, map[string]string{}
	return &response{responseBody: body, after: -1}
}

func (s *response) id(execution string) {
	s.ID, s.item = responsePrefix+execution, "msg_"+execution
}

// ended returns the response of a turn that has ended or waits. Any other end than the agent's answer is
// also sent as the text of a message. The response is then incomplete if the turn was stopped or its
// answer may still come into the conversation, and failed if there will be no answer.
func (s *response) ended(r turn.Reply) responseBody {
	return s.bodyOf(r, visibleText(r))
}

func (s *response) bodyOf(r turn.Reply, text string) responseBody {
	b := s.responseBody
	switch {
	case cut(r):
		b.Status, b.Incomplete = incomplete, &responseReason{"max_output_tokens"}
	case r.Status == execution.Completed:
		b.Status = completed
	case r.Status == execution.Failed, r.Status == execution.Stalled:
		b.Status, b.Error = failed, &responseError{"server_error", visibleText(r)}
	default:
		b.Status, b.Incomplete = incomplete, &responseReason{string(r.Status)}
	}
	b.Usage = &responseUsage{Input: r.Prompt, Output: r.Completion, Total: r.Prompt + r.Completion}
	b.Output = []responseItem{s.message(b.Status, text)}
	return b
}

// message is the only item of a response's output.
func (s *response) message(status responseStatus, text string) responseItem {
	if status == failed {
		status = incomplete
	}
	return responseItem{Type: "message", ID: s.item, Status: status, Role: "assistant", Content: []responsePart{partOf(text)}}
}

func partOf(text string) responsePart {
	return responsePart{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

func (s *response) answer(r turn.Reply) any {
	s.id(r.Execution)
	return s.ended(r)
}

// The sequence numbers of the events before the text. As many events follow the text.
const (
	createdSeq = iota
	inProgressSeq
	itemAddedSeq
	partAddedSeq
	endSeqs = iota
)

// continueAfter skips the events up to the one with a number, which the client has.
func (s *response) continueAfter(seq int) { s.after, s.unsure = seq, seq>>sumBits > 0 }

// fields are the fields of an event other than its type and number.
type fields map[string]any

// writeEvent adds an event, unless the client has it.
func (s *response) writeEvent(b *bytes.Buffer, seq int, kind string, f fields) {
	if seq <= s.after {
		return
	}
	f["type"], f["sequence_number"] = kind, seq
	sse.Event(b, strconv.Itoa(seq), kind, f)
}

func (s *response) begin(b *bytes.Buffer, execution, _ string) {
	s.id(execution)
	begun := s.responseBody
	begun.Status = inProgress
	s.writeEvent(b, createdSeq, "response.created", fields{"response": begun})
	s.writeEvent(b, inProgressSeq, "response.in_progress", fields{"response": begun})
	empty := s.message(inProgress, "")
	empty.Content = []responsePart{}
	s.writeEvent(b, itemAddedSeq, "response.output_item.added", fields{"output_index": 0, "item": empty})
	s.writeEvent(b, partAddedSeq, "response.content_part.added", s.located(fields{"part": partOf("")}))
}

// located adds to an event the part of the output to which it belongs.
func (s *response) located(f fields) fields {
	f["item_id"], f["output_index"], f["content_index"] = s.item, 0, 0
	return f
}

func (s *response) event(b *bytes.Buffer, e turn.Event) { s.delta(b, s.add(e)) }

// delta sends a piece of the text, without the beginning that the client has.
func (s *response) delta(b *bytes.Buffer, piece string) {
	if piece == "" {
		return
	}
	before, had := s.sum, s.after>>sumBits
	s.sum = crc32.Update(before, crc32.IEEETable, []byte(piece))
	if s.unsure {
		if s.all.Len() < had {
			return
		}
		s.unsure = false
		from := had - (s.all.Len() - len(piece))
		if byte(crc32.Update(before, crc32.IEEETable, []byte(piece[:from]))) != byte(s.after) {
			s.sendWhole(b)
			return
		}
		for from < len(piece) && !utf8.RuneStart(piece[from]) {
			from++
		}
		if piece = piece[from:]; piece == "" {
			return
		}
	}
	s.send(b, piece)
}

// sendWhole sends the whole text to a client that has a part of another one.
func (s *response) sendWhole(b *bytes.Buffer) {
	const apart = "\n\n"
	s.skipped = s.after>>sumBits + len(apart)
	s.send(b, apart+s.all.String())
}

// send sends a piece that ends at the present end of the text.
func (s *response) send(b *bytes.Buffer, piece string) {
	seq := (s.skipped+s.all.Len())<<sumBits | int(byte(s.sum))
	s.writeEvent(b, seq, "response.output_text.delta", s.located(fields{"delta": piece, "logprobs": []struct{}{}}))
}

func (s *response) end(b *bytes.Buffer, r turn.Reply) {
	s.delta(b, s.prose.end(r))
	whole := s.all.String()
	if ended := (len(whole) + 1) << sumBits; s.unsure && (s.after < ended || s.after >= ended+endSeqs) {
		s.sendWhole(b) // the client has a longer text
	}
	seq, done := (s.skipped+len(whole)+1)<<sumBits, s.bodyOf(r, whole)
	s.writeEvent(b, seq, "response.output_text.done", s.located(fields{"text": whole, "logprobs": []struct{}{}}))
	s.writeEvent(b, seq+1, "response.content_part.done", s.located(fields{"part": partOf(whole)}))
	s.writeEvent(b, seq+2, "response.output_item.done", fields{"output_index": 0, "item": done.Output[0]})
	s.writeEvent(b, seq+3, "response."+string(done.Status), fields{"response": done})
}

package bedrock_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/bedrock"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

func TestConform(t *testing.T) {
	llmtest.Conform(t, llmtest.Provider{
		Play: func(t testing.TB, turns ...llmtest.Turn) llm.Model {
			var handlers []http.HandlerFunc
			for _, turn := range turns {
				handlers = append(handlers, play(turn))
			}
			s := llmtest.Serve(t, handlers...)
			return bedrock.New(bedrock.Config{Model: model, AWS: sdk(s.Client(), s.URL)})
		},
		Stops: []llm.StopReason{llm.StopEndTurn, llm.StopToolUse, llm.StopMaxTokens, llm.StopSequence, llm.StopRefusal, llm.StopOther},
		Classes: []llm.ErrorClass{
			llm.ClassAuthentication, llm.ClassBilling, llm.ClassRateLimit, llm.ClassBadRequest, llm.ClassContextTooLong,
			llm.ClassUnavailable, llm.ClassTimeout, llm.ClassRefused,
		},
	})
}

// stops are Bedrock's names of stop reasons.
var stops = map[llm.StopReason]string{llm.StopRefusal: "guardrail_intervened", llm.StopOther: "something_new"}

// refusals are Bedrock's answers for the error classes.
var refusals = map[llm.ErrorClass]struct {
	status             int
	exception, message string
}{
	llm.ClassAuthentication: {403, "AccessDeniedException", "You don't have access."},
	llm.ClassBilling:        {400, "ServiceQuotaExceededException", "Your request exceeds the quota."},
	llm.ClassRateLimit:      {429, "ThrottlingException", "Too many requests."},
	llm.ClassBadRequest:     {400, "ValidationException", "The text field is blank."},
	llm.ClassContextTooLong: {400, "ValidationException", "Input is too long for requested model."},
	llm.ClassUnavailable:    {503, "ServiceUnavailableException", "Try again."},
	llm.ClassTimeout:        {408, "ModelTimeoutException", "It took too long."},
	llm.ClassRefused:        {400, "ValidationException", "This request has been blocked by our content filters."},
}

// play answers as Bedrock does for the turn.
func play(turn llmtest.Turn) http.HandlerFunc {
	if r, fails := refusals[turn.Fail]; fails {
		return refusal(r.status, r.exception, r.message, "Retry-After", fmt.Sprint(int(turn.RetryAfter.Seconds())))
	}
	return func(w http.ResponseWriter, r *http.Request) {
		pieces, kind := converseOf(turn.Answer), "application/json"
		if strings.HasSuffix(r.URL.Path, "-stream") {
			pieces, kind = streamOf(turn.Answer), "application/vnd.amazon.eventstream"
		}
		end := llmtest.EndWell
		switch {
		case turn.Cut:
			end = llmtest.EndAbort
		case turn.Hang:
			end = llmtest.EndHang
		}
		if turn.Cut || turn.Hang {
			pieces = pieces[:len(pieces)-1]
		}
		if turn.Break {
			failure := frame("exception", "serviceUnavailableException", `{"message":"Try again."}`)
			pieces = []string{string(slices.Concat(begunOf(turn.Answer), failure))}
		}
		llmtest.Speak(http.StatusOK, end, pieces, "Content-Type", kind)(w, r)
	}
}

func stopOf(r llm.Response) string {
	if word := stops[r.StopReason]; word != "" {
		return word
	}
	return string(r.StopReason)
}

func usageOf(r llm.Response) string {
	u := r.Usage
	return fmt.Sprintf(`{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d,"cacheReadInputTokens":%d,"cacheWriteInputTokens":%d}`,
		u.PromptTokens, u.CompletionTokens, u.TotalTokens(), u.CacheReadTokens, u.CacheWriteTokens)
}

func converseOf(r llm.Response) []string {
	var blocks []string
	if r.Text != "" {
		raw, _ := json.Marshal(r.Text)
		blocks = append(blocks, fmt.Sprintf(`{"text":%s}`, raw))
	}
	for _, c := range r.Calls {
		blocks = append(blocks, fmt.Sprintf(`{"toolUse":{"toolUseId":%q,"name":%q,"input":%s}}`, c.ID, c.Name, c.Arguments))
	}
	return llmtest.Pieces(fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":[%s]}},"stopReason":%q,"usage":%s}`,
		strings.Join(blocks, ","), stopOf(r), usageOf(r)), 5)
}

func streamOf(r llm.Response) []string {
	stream := begunOf(r)
	stream = append(stream, messageStop(stopOf(r))...)
	stream = append(stream, event("metadata", `{"usage":`+usageOf(r)+`}`)...)
	var pieces []string // pieces that are not aligned with the events
	for p := range slices.Chunk(stream, max(len(stream)/30, 1)) {
		pieces = append(pieces, string(p))
	}
	return pieces
}

// begunOf returns a stream without its end.
func begunOf(r llm.Response) []byte {
	stream := messageStart()
	block := 0
	for _, piece := range llmtest.Pieces(r.Text, 20) {
		stream = append(stream, text(block, piece)...)
	}
	for _, c := range r.Calls {
		block++
		stream = append(stream, callStart(block, c.ID, c.Name)...)
		for _, piece := range llmtest.Pieces(string(c.Arguments), 5) {
			stream = append(stream, callInput(block, piece)...)
		}
		stream = append(stream, blockStop(block)...)
	}
	return stream
}

package chat_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

const responses = "/v1/responses"

type responded struct {
	ID, Object, Status, Model string
	Previous                  string `json:"previous_response_id"`
	Error                     *struct{ Code, Message string }
	Incomplete                *struct{ Reason string } `json:"incomplete_details"`
	Output                    []struct {
		Type, Role, Status string
		Content            []struct{ Type, Text string }
	}
	Usage *struct {
		Total int64 `json:"total_tokens"`
	}
}

// said is the text of a response.
func (r responded) said() string {
	if len(r.Output) != 1 || len(r.Output[0].Content) != 1 {
		return ""
	}
	return r.Output[0].Content[0].Text
}

// TestInstructionsComeWithEachResponse: they are told to the model each time, stored once, and no part of what is asked.
func TestInstructionsComeWithEachResponse(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := w.think(t, slices.Repeat([]llmtest.Writing{llmtest.Writes("Yes.")}, 3)...)
		long := strings.Repeat("Be kind. ", 3000)
		var r responded
		id := ""
		for i, instructions := range []string{"Be brief.", "Be brief.", long} {
			got := w.post(t, responses, `{"instructions":"`+instructions+`","input":"`+strconv.Itoa(i)+`","previous_response_id":"`+r.ID+`"}`)
			if got.into(t, &r); got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			id = got.header.Get("X-Thread-Id")
			all := ""
			for _, one := range m.Request(i).Messages {
				all += one.Text + "\n"
			}
			if strings.Count(all, instructions) != 1 ||
				!strings.HasSuffix(all, "\n"+strconv.Itoa(i)+"\n") || strings.Contains(all, "Yes.") != (i > 0) {
				t.Errorf("the model is told %q", all)
			}
		}
		want := []string{
			"user: Be brief.", "user: 0", "assistant: Yes.", "user: 1", "assistant: Yes.", "user: " + long, "user: 2", "assistant: Yes.",
		}
		if got := w.spoken(t, id); !slices.Equal(got, want) {
			t.Errorf("the thread is %q", got)
		}
	})
}

// TestAResponse goes on where the one before it ended, for whoever has its id.
func TestAResponse(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := w.think(t, llmtest.Writes("Hello."), llmtest.Writes("You said hi."))
		var first, second, again responded
		got := w.post(t, responses, `{"model":"visitor_chat","instructions":"Be brief.","input":"Hi.","store":false}`)
		got.into(t, &first)
		if got.status != 200 || first.said() != "Hello." || first.Object != "response" || first.Status != "completed" || first.Usage == nil ||
			!strings.HasPrefix(first.ID, "resp_") || first.Output[0].Role != "assistant" || first.Output[0].Content[0].Type != "output_text" {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if r := m.Request(0); strings.Contains(r.System, "Be brief.") || !strings.Contains(r.Messages[0].Text, "Be brief.") {
			t.Errorf("the model was told %q, %+v", r.System, r.Messages)
		}
		got2 := w.post(t, responses, `{"input":[{"role":"user","content":[{"type":"input_text","text":"What did I say?"}]}],"previous_response_id":"`+first.ID+`"}`)
		if got2.into(t, &second); second.said() != "You said hi." || second.Previous != first.ID {
			t.Errorf("%d %s", got2.status, got2.body)
		}
		id := got.header.Get("X-Thread-Id")
		if got2.header.Get("X-Thread-Id") != id || got2.header.Get("X-Session-Id") != got.header.Get("X-Session-Id") {
			t.Errorf("it goes on in %v", got2.header)
		}
		want := []string{"user: Be brief.", "user: Hi.", "assistant: Hello.", "user: What did I say?", "assistant: You said hi."}
		if got := w.spoken(t, id); !slices.Equal(got, want) {
			t.Errorf("the thread is %q", got)
		}
		read := w.call(t, http.MethodGet, responses+"/"+first.ID, site, "")
		if read.into(t, &again); again.ID != first.ID || again.Status != "completed" || again.said() != "Hello." || again.Model != "visitor_chat" {
			t.Errorf("%d %s", read.status, read.body)
		}
		if again.Previous != "" {
			t.Errorf("the first is read as one that follows %s", again.Previous)
		}
		if read = w.call(t, http.MethodGet, responses+"/"+second.ID, site, ""); read.status != 200 {
			t.Errorf("%d %s", read.status, read.body)
		}
		if read.into(t, &again); again.Previous != first.ID {
			t.Errorf("the second is read as one that follows %q", again.Previous)
		}
		for _, unknown := range []string{"resp_" + ids(), "resp_1", first.ID[5:]} {
			if got := w.call(t, http.MethodGet, responses+"/"+unknown, site, ""); got.status != 404 {
				t.Errorf("%s: %d %s", unknown, got.status, got.body)
			}
			body := `{"input":"Hi.","previous_response_id":"` + unknown + `"}`
			if got := w.post(t, responses, body); got.status != 404 || !strings.Contains(got.body, `"param":"previous_response_id"`) {
				t.Errorf("%s: %d %s", unknown, got.status, got.body)
			}
		}
		body := `{"input":"Hi.","user":"bob","previous_response_id":"` + first.ID + `"}`
		if got := w.post(t, responses, body); got.status != 404 {
			t.Errorf("another visitor goes on with it: %d %s", got.status, got.body)
		}
	})
}

// numbered is an event of a stream of a response.
type numbered struct {
	Type     string
	Seq      int `json:"sequence_number"`
	Delta    string
	Text     string
	Response *responded
}

func numberedOf(t testing.TB, all []event) (out []numbered) {
	t.Helper()
	for _, e := range all {
		var n numbered
		if err := json.Unmarshal([]byte(e.data), &n); err != nil || n.Type != e.kind || strconv.Itoa(n.Seq) != e.id {
			t.Fatalf("%v: %v", e, err)
		}
		out = append(out, n)
	}
	return out
}

// kinds are the types of events, of deltas in a row one.
func kinds(all []numbered) (out []string) {
	for _, n := range all {
		out = append(out, n.Type)
	}
	return slices.Compact(out)
}

// TestAResponseIsStreamed with the events of its shape, and again behind any of them.
func TestAResponseIsStreamed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(t, llmtest.WritesCalls("Let me look.", "look_inside", `{}`), llmtest.Writes("Grü", "ße ", "dir."))
		s := w.stream(t, http.MethodPost, responses, `{"input":"Hi.","stream":true}`)
		all := numberedOf(t, s.rest())
		want := []string{
			"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
			"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
		}
		if got := kinds(all); !slices.Equal(got, want) {
			t.Fatalf("the events are %q", got)
		}
		const whole = "Let me look.\n\nGrüße dir."
		said := ""
		for i, n := range all {
			said += n.Delta
			if i > 0 && n.Seq <= all[i-1].Seq {
				t.Errorf("event %d has the number %d behind %d", i, n.Seq, all[i-1].Seq)
			}
			if n.Type == "response.output_text.done" && n.Text != whole {
				t.Errorf("it says in all %q", n.Text)
			}
		}
		last := all[len(all)-1].Response
		if said != whole || last == nil || last.said() != whole || last.Status != "completed" || last.Usage == nil {
			t.Errorf("it says %q, and ends with %+v", said, last)
		}
		for _, n := range all {
			path := responses + "/" + last.ID + "?stream=true&starting_after=" + strconv.Itoa(n.Seq)
			rest := numberedOf(t, w.stream(t, http.MethodGet, path, "").rest())
			before, behind := min(n.Seq>>8, len(whole)), ""
			for _, m := range rest {
				behind += m.Delta
				if m.Seq <= n.Seq {
					t.Errorf("behind %d comes %d", n.Seq, m.Seq)
				}
			}
			if behind != whole[before:] {
				t.Errorf("behind %d comes %q, not %q", n.Seq, behind, whole[before:])
			}
		}
		path := responses + "/" + last.ID + "?stream=true"
		for _, no := range []string{"-1", "1.5", "2147483648"} {
			got := w.call(t, http.MethodGet, path+"&starting_after="+no, site, "")
			if got.status != 400 || !strings.Contains(got.body, "starting_after") {
				t.Errorf("behind %s: %d %s", no, got.status, got.body)
			}
		}
		if got := kinds(numberedOf(t, w.stream(t, http.MethodGet, path, "").rest())); !slices.Equal(got, want) {
			t.Errorf("from the beginning come %q", got)
		}
	})
}

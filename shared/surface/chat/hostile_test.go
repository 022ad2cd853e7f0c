package chat_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
)

// TestWhatIsNoMessage is refused with the field, and why; nothing is asked of a model, or stored.
func TestWhatIsNoMessage(t *testing.T) {
	w := onOne(t)
	w.think(t)
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	user := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	for _, c := range []struct {
		path, body  string
		status      int
		code, param string
	}{
		{completions, `{`, 400, "malformed", ""},
		{completions, `[]`, 400, "invalid", "body"},
		{completions, `{}`, 400, "invalid", "messages"},
		{completions, `{"messages":[]}`, 400, "invalid", "messages"},
		{completions, `{"messages":"Hi."}`, 400, "invalid", "messages"},
		{completions, `{"messages":[{"role":"user"}]}`, 400, "invalid", "messages[0].content"},
		{completions, `{"messages":[{"role":"owner","content":"Hi."}]}`, 400, "invalid", "messages[0].role"},
		{completions, `{"messages":[{"role":"assistant","content":"Hi."}]}`, 400, "invalid", "messages[0].role"},
		{completions, user(`""`), 400, "invalid", "messages[0].content"},
		{completions, user(`" \n"`), 400, "invalid", "messages[0].content"},
		{completions, user(`7`), 400, "invalid", "messages[0].content"},
		{completions, user(`"\u0000"`), 400, "invalid", "messages[0].content"},
		{completions, user(`[{"type":"image_url","image_url":{"url":"data:,"}}]`), 400, "unsupported_content", "messages[0].content[0].type"},
		{completions, user(`"` + strings.Repeat("a", 16<<10+1) + `"`), 400, "string_above_max_length", "messages[0].content"},
		{completions, `{"messages":[{"role":"user","content":"` + strings.Repeat("a", 60<<10+1) + `"},{"role":"user","content":"Hi."}]}`, 400, "invalid", "messages[0].content"},
		{completions, `{"n":2,"messages":[{"role":"user","content":"Hi."}]}`, 400, "invalid", "n"},
		{completions, `{"max_tokens":0,"messages":[{"role":"user","content":"Hi."}]}`, 400, "invalid", "max_tokens"},
		{completions, `{"max_completion_tokens":0,"messages":[{"role":"user","content":"."}]}`, 400, "invalid", "max_completion_tokens"},
		{completions, `{"max_tokens":1.5,"messages":[{"role":"user","content":"Hi."}]}`, 400, "invalid", "max_tokens"},
		{completions, `{"tools":[{}],"messages":[{"role":"user","content":"Hi."}]}`, 422, "unsupported_tools", "tools"},
		{completions, `{"functions":[{}],"messages":[{"role":"user","content":"Hi."}]}`, 422, "unsupported_tools", "tools"},
		{completions, `{"stream":"yes","messages":[{"role":"user","content":"Hi."}]}`, 400, "invalid", "stream"},
		{completions, `{"user":"` + strings.Repeat("a", 257) + `","messages":[{"role":"user","content":"Hi."}]}`, 400, "invalid", "user"},
		{completions, `{"user":"a\nb","messages":[{"role":"user","content":"Hi."}]}`, 400, "invalid", "user"},
		{completions, `{"model":"a\u0000b","messages":[{"role":"user","content":"Hi."}]}`, 404, "model_not_found", "model"},
		{completions, `{"x":` + deep + `,"messages":[{"role":"user","content":"Hi."}]}`, 400, "malformed", ""},
		{completions, `{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, 400, "malformed", ""},
		{completions, strings.Repeat(" ", 4<<20) + `{}`, 413, "too_large", ""},
		{responses, `{}`, 400, "invalid", "input"},
		{responses, `{"input":null}`, 400, "invalid", "input"},
		{responses, `{"input":[]}`, 400, "invalid", "input"},
		{responses, `{"input":7}`, 400, "invalid", "input"},
		{responses, `{"input":[{"type":"function_call_output","call_id":"1","output":"x"}]}`, 400, "unsupported_item", "input[0].type"},
		{responses, `{"input":[{"role":"assistant","content":"Hi."}]}`, 400, "invalid", "input[0].role"},
		{responses, `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`, 400, "unsupported_content", "input[0].content[0].type"},
		{responses, `{"input":[{"type":"reasoning"}]}`, 400, "invalid", "input"},
		{responses, `{"input":"","instructions":"Be brief."}`, 400, "invalid", "input"},
		{responses, `{"input":[{"role":"user","content":[]}],"instructions":"Be brief."}`, 400, "invalid", "input"},
		{responses, `{"input":"Hi.","tools":[{"type":"web_search"}]}`, 422, "unsupported_tools", "tools"},
		{responses, `{"input":"Hi.","max_output_tokens":-1}`, 400, "invalid", "max_output_tokens"},
		{responses, `{"input":"Hi.","instructions":"` + strings.Repeat("a", 60<<10+1) + `"}`, 400, "invalid", "instructions"},
		{messages, `{}`, 422, "invalid", "body.message"},
		{messages, `{"message":"Hi.","usr":"ada"}`, 422, "invalid", "body.usr"},
		{messages, `{"message":"Hi.","<b>no name</b>":1}`, 422, "invalid", "body"},
		{messages, `{"message":"Hi.","Message":"Ho."}`, 422, "invalid", "body.Message"},
		{messages, `{"message":"Hi.","user":"ada","message":"Ho."}`, 422, "invalid", "body.message"},
		{messages + "?stream=true", `{"message":"Hi."}`, 422, "invalid", "query.stream"},
		{messages, `"Hi."`, 422, "invalid", "body"},
		{messages, `{"message":["Hi."]}`, 422, "invalid", "body.message"},
		{messages, `{"message":"Hi.","multitask":"twice"}`, 422, "invalid", "body.multitask"},
		{messages, `{"message":"` + strings.Repeat("a", 16<<10+1) + `"}`, 422, "string_above_max_length", "body.message"},
	} {
		begun := time.Now()
		got := w.post(t, c.path, c.body)
		var v1 struct {
			Error struct{ Message, Type, Code, Param string }
		}
		var p struct {
			Code, Detail string
			Errors       []struct{ Location, Message string }
		}
		code, param, why := "", "", ""
		if strings.HasPrefix(c.path, "/v1/") {
			got.into(t, &v1)
			code, param, why = v1.Error.Code, v1.Error.Param, v1.Error.Message
		} else if got.into(t, &p); len(p.Errors) > 0 {
			code, param, why = p.Code, p.Errors[0].Location, p.Errors[0].Message
		}
		if got.status != c.status || code != c.code || param != c.param || len(why) < 10 ||
			strings.Contains(c.body, "1.5") != strings.Contains(why, "integer") {
			t.Errorf("%s %.80s: %d %s", c.path, c.body, got.status, got.body)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s %.80s took %v", c.path, c.body, took)
		}
	}
	for name, value := range map[string]string{"X-Multitask": "twice", "X-Session-Id": strings.Repeat("a", 257), "Content-Type": "text/plain", "Content-Encoding": "gzip"} {
		got := w.post(t, completions, user(`"Hi."`), name, value)
		want := 400
		if strings.HasPrefix(name, "Content") {
			want = 415
		}
		if got.status != want {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

// TestABodyOfManyValues: a body within its size takes no more memory than its size explains, whatever it consists of.
func TestABodyOfManyValues(t *testing.T) {
	w := onOne(t)
	w.think(t)
	for name, body := range map[string]string{
		"messages":  `{"messages":[` + strings.Repeat("{},", 1_300_000) + `{}]}`,
		"parts":     `{"messages":[{"role":"user","content":[` + strings.Repeat("{},", 1_300_000) + `{}]}]}`,
		"tools":     `{"messages":[{"role":"user","content":"Hi."}],"tools":[` + strings.Repeat("0,", 2_000_000) + `0]}`,
		"something": `{"messages":[{"role":"user","content":"Hi."}],"x":[` + strings.Repeat("0,", 2_000_000) + `0]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := w.post(t, completions, body)
		runtime.ReadMemStats(&after)
		if got.status != 400 || !strings.Contains(got.body, "malformed") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if all := after.TotalAlloc - before.TotalAlloc; all > 48<<20 {
			t.Errorf("%s: a body of %d MiB took %d MiB", name, len(body)>>20, all>>20)
		}
	}
}

// TestAFloodOfBodies takes no more memory than a few of them.
func TestAFloodOfBodies(t *testing.T) {
	collectsAsInProduction(t)
	w := onOne(t)
	w.think(t)
	large := []byte(`{"messages":[{"role":"owner","content":"` + strings.Repeat("a", 250<<10) + `"}]}`)
	var most, refused int
	var mu sync.Mutex
	var wg sync.WaitGroup
	var before, at runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 16 {
		wg.Go(func() {
			for range 20 {
				r := w.request(t, http.MethodPost, completions, site, "")
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(large)), int64(len(large))
				r.Header.Set("Content-Type", "application/json")
				got, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, got.Body)
				_ = got.Body.Close()
				mu.Lock()
				runtime.ReadMemStats(&at)
				most = max(most, int(at.HeapAlloc)-int(before.HeapAlloc))
				if got.StatusCode == 400 || got.StatusCode == 503 {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if refused != 320 || most > 128<<20 {
		t.Errorf("%d were refused, with %d MiB more in memory", refused, most>>20)
	}
}

// TestManyWhoSendSlowly hold no more than what they have sent: others are served, and a body that does
// not come is given up.
func TestManyWhoSendSlowly(t *testing.T) {
	w := onOne(t, func(*chat.Handler) {})
	w.think(t, llmtest.Writes("Hello."))
	address := strings.TrimPrefix(w.url, "http://")
	for range 200 {
		c := must(net.Dial("tcp", address))(t)
		defer c.Close()
		_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 262000\r\n\r\n{", completions, address, site)
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := w.post(t, messages, `{"message":"Hi."}`); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestOneNetworkLeavesRoomForOthers: the bodies that one network sends take a part of the memory only.
func TestOneNetworkLeavesRoomForOthers(t *testing.T) {
	w := onOne(t)
	w.Reason.Model = greeter{}
	post := func(from string, body io.Reader) int {
		r := w.request(t, http.MethodPost, messages, site, `{}`, "X-Session-Id", "ann")
		r.RemoteAddr, r.Body, r.ContentLength = from, io.NopCloser(body), -1
		out := httptest.NewRecorder()
		w.ServeHTTP(out, r)
		return out.Code
	}
	const one, two = "192.0.2.1:1000", "192.0.2.2:1000"
	var open []*io.PipeWriter
	var all sync.WaitGroup
	half := bytes.Repeat([]byte(" "), 250<<10) // of a body whose other half does not come
	for range 65 {
		r, body := io.Pipe()
		open = append(open, body)
		all.Go(func() { post(one, r) })
		for _, part := range [][]byte{half, []byte(" ")} { // who reads the second has counted the first
			if _, err := body.Write(part); err != nil {
				t.Fatal(err)
			}
		}
	}
	hi := func() io.Reader {
		return io.MultiReader(bytes.NewReader(half), strings.NewReader(`{"message":"Hi."}`))
	}
	if got := post(one, hi()); got != http.StatusServiceUnavailable {
		t.Errorf("the network that took its part gets %d", got)
	}
	if got := post(two, hi()); got != http.StatusOK {
		t.Errorf("another network gets %d", got)
	}
	for _, body := range open {
		_ = body.CloseWithError(io.ErrUnexpectedEOF)
	}
	all.Wait()
	if got := post(one, hi()); got != http.StatusOK {
		t.Errorf("once the bodies have ended, the network gets %d", got)
	}
}

// TestABodyThatDoesNotComeEndsItsConnection, also where nobody reads it: the request is refused, or needs none.
func TestABodyThatDoesNotComeEndsItsConnection(t *testing.T) {
	w := onOne(t)
	for name, c := range map[string]struct {
		ask    string
		status int
	}{
		"no key":       {"POST " + completions + " HTTP/1.1", 401},
		"no such path": {"POST /v1/nope HTTP/1.1", 404},
		"a read":       {"GET /v1/models HTTP/1.1\r\nOrigin: " + siteOrigin + "\r\nAuthorization: Bearer " + site, 200},
		"a method":     {"PUT " + messages + " HTTP/1.1", 405},
	} {
		for _, length := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				srv := &http.Server{Handler: w.Handler}
				defer srv.Close()
				one := &accepts{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
				one.conn <- theirs
				go func() { _ = srv.Serve(one) }()
				begun := time.Now()
				if err := ours.SetDeadline(begun.Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(ours, c.ask+"\r\nHost: x\r\n"+length+"\r\n\r\n1"); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(ours)
				if lived := time.Since(begun); err != nil || lived > 15*time.Second {
					t.Errorf("%s, %s: the connection lived for %s: %v", name, length, lived, err)
				}
				if !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", c.status)) {
					t.Errorf("%s, %s: it answered %.200q", name, length, answer)
				}
			})
		}
	}
}

// accepts is a listener of one connection.
type accepts struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (a *accepts) Accept() (net.Conn, error) {
	select {
	case c := <-a.conn:
		return c, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

func (a *accepts) Close() error {
	close(a.closed)
	return nil
}

func (*accepts) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

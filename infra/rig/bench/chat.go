package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// thinks is how long a model takes to begin, in the row that measures the way of its first token. It is
// less than a real one takes, and more than what a chat writes meanwhile.
const thinks = 50 * time.Millisecond

// chats measures the time that a warm chat adds to a model's first token, compared with a proxy
// that passes the response on unchanged. The first row is of the whole request to a model that answers
// at once, so that nothing of what a chat writes meanwhile is hidden behind the model's own time. Its
// detail also says how much of the time passes before the model is asked, which no model hides, and what
// the least durable write takes: no text leaves before the lanes, the message and the reservation are
// committed. The second row is of the token alone, from a model that thinks first to the caller.
func chats(ctx context.Context, rounds int) ([]Row, error) {
	d, _, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	var q bareQueries
	if err := db.Load(bare, &q); err != nil {
		return nil, err
	}
	var asked, spoke atomic.Int64 // when the model was asked last, and began to answer
	var slow atomic.Bool
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(time.Now().UnixNano())
		_, _ = io.Copy(io.Discard, r.Body) // a proxy whose request is not read may cut the answer off
		if slow.Load() {
			time.Sleep(thinks)
		}
		spoke.Store(time.Now().UnixNano())
		speak(w, r)
	}))
	defer model.Close()
	at, err := url.Parse(model.URL)
	if err != nil {
		return nil, err
	}
	core := app.NewCore(d, app.Config{
		LLMProvider: "openai", LLMModel: "x", OpenAIBaseURL: model.URL, OpenAIAPIKey: "x", AllowPrivateHosts: []string{at.Host},
	}, slog.New(slog.DiscardHandler), nil)
	surfaces, err := wire.New(core, "bench")
	if err != nil {
		return nil, err
	}
	srv := httptest.NewServer(&chat.Handler{
		Runner: &turn.Runner{Parts: surfaces.Parts, Kinds: []turn.Kind{chat.Kind()}},
		Auth: auth.New(func(context.Context, string) (auth.Principal, error) {
			return auth.Principal{Workspace: workspace.Default, Kind: auth.Key, ID: "1", Role: auth.Member, Scopes: []auth.Scope{"*"}}, nil
		}),
	})
	defer srv.Close()
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(at)
			body, _ := io.ReadAll(r.In.Body) // an answer that overtakes its request is cut off
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		},
		FlushInterval: -1,
	})
	defer bare.Close()
	var through, proxied, before, commits, way, bareWay []float64
	for i := range rounds + rounds/10 {
		begun := time.Now().UnixNano()
		ours, _, err := firstToken(ctx, srv.URL, i/50) // a conversation has a token budget
		if err != nil {
			return nil, err
		}
		untilAsked := float64(asked.Load()-begun) / 1e3
		commit, err := timed(func() error { _, err := d.Exec(ctx, "", q.Update, rowID); return err })
		if err != nil {
			return nil, err
		}
		theirs, _, err := firstToken(ctx, bare.URL, i/50)
		if err != nil {
			return nil, fmt.Errorf("through a bare proxy: %w", err)
		}
		if i >= rounds/10 {
			through, proxied = append(through, ours), append(proxied, theirs)
			before, commits = append(before, untilAsked), append(commits, commit)
		}
	}
	slow.Store(true)
	for i := range rounds {
		for origin, ways := range map[string]*[]float64{srv.URL: &way, bare.URL: &bareWay} {
			_, came, err := firstToken(ctx, origin, rounds+i/50)
			if err != nil {
				return nil, err
			}
			*ways = append(*ways, float64(came.UnixNano()-spoke.Load())/1e3)
		}
	}
	return []Row{{
		Name: "chat: added to the model's first token, p50", Value: (median(through) - median(proxied)) / 1e3, Unit: "ms", Limit: 1,
		Detail: fmt.Sprintf("%.2f ms, of which %.2f before the model is asked; through a bare proxy %.2f ms; one durable commit %.2f ms; Postgres",
			median(through)/1e3, median(before)/1e3, median(proxied)/1e3, median(commits)/1e3),
	}, {
		Name: "chat: added to the way of the model's first token, p50", Value: (median(way) - median(bareWay)) / 1e3, Unit: "ms", Limit: 1,
		Detail: fmt.Sprintf("%.2f ms from a model that thinks for %s; through a bare proxy %.2f ms",
			median(way)/1e3, thinks, median(bareWay)/1e3),
	}}, nil
}

// speak is a model that begins to answer at once.
func speak(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, data := range []string{
		`{"id":"1","object":"chat.completion.chunk","model":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."}}]}`,
		`{"id":"1","object":"chat.completion.chunk","model":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`{"id":"1","object":"chat.completion.chunk","model":"x","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
		"[DONE]",
	} {
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = http.NewResponseController(w).Flush() // the caller may have disconnected
	}
}

// firstToken requests a completion. It returns the microseconds until its first token, and when that
// came. It also reads the rest.
func firstToken(ctx context.Context, origin string, visitor int) (micros float64, came time.Time, err error) {
	body := fmt.Sprintf(`{"model":"visitor_chat","stream":true,"user":"v%d","messages":[{"role":"user","content":"Hi."}]}`, visitor)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, origin+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, came, err
	}
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Content-Type", "application/json")
	begun := time.Now()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, came, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, came, fmt.Errorf("ask for a completion: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if micros == 0 && strings.Contains(lines.Text(), "Hello.") {
			came = time.Now()
			micros = float64(came.Sub(begun).Nanoseconds()) / 1e3
		}
	}
	return micros, came, lines.Err()
}

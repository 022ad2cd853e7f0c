package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// paid starts a model whose answers cost money. It counts the requests.
func paid(t testing.TB) (environ []string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, `{"error":{"message":"no such model","code":"model_not_found"}}`, http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	return []string{"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=sk-1", "LLM_MODEL=dear-1"}, asked
}

// at runs a command line as if a person at a terminal typed in.
func (h home) at(in string, args ...string) *running {
	h.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &running{h.t, newWatched(), newWatched(), stop, make(chan int, 1)}
	c := &console{name: "lanekeeper", environ: h.environ, in: strings.NewReader(in), out: r.out, err: r.errs, terminal: true}
	go func() {
		r.code <- c.code(c.run(ctx, args))
		r.out.end()
		r.errs.end()
	}()
	h.t.Cleanup(func() {
		stop()
		<-r.out.ended
	})
	return r
}

// A key in the environment costs nothing until a person has agreed.
func TestAKeyAloneSpendsNothing(t *testing.T) {
	environ, asked := paid(t)
	h := newHome(t, environ...)
	d := h.dev()
	d.started()
	d.end()
	says(t, d.out.String(), "model      DEMO", "OPENAI_API_KEY is set and not used: the provider is demo. LLM_PROVIDER=openai has")
	says(t, h.must(exitDone, "ask", "Hello").out, "[demo model]")
	h.must(exitDone, "trigger", "heartbeat")
	says(t, h.must(exitDone, "doctor").out, "the demo model answers", "OPENAI_API_KEY is set and not used")
	for _, no := range []string{"", "\n", "n\n", "perhaps\n"} {
		d := h.at(no, "dev")
		d.out.wait(t, "[y/N]")
		says(t, d.out.String(), "A key for openai is in the environment. May the agent ask dear-1, which costs money?")
		d.started()
		d.end()
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestAYesIsKept(t *testing.T) {
	environ, asked := paid(t)
	h := newHome(t, environ...)
	d := h.at("y\n", "dev")
	d.started()
	d.end()
	says(t, d.out.String(), "model      dear-1 of openai")
	before := asked.Load()
	if before == 0 {
		t.Error("the model was not asked")
	}
	h.do("ask", "Hello")
	if asked.Load() == before {
		t.Error("another verb does not know of the yes")
	}
	again := h.dev()
	says(t, again.out.wait(t, "model "), "dear-1 of openai")
	again.end()

	// The yes is for this provider only.
	other := home{t, append(h.environ[:len(h.environ)-len(environ):len(h.environ)-len(environ)], "ANTHROPIC_API_KEY=k")}
	says(t, other.must(exitDone, "config").out, "the provider is demo")
	if info, err := os.Stat(agreedFile(configOf(t, h))); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the yes is in %v, %v", info, err)
	}
}

func TestAChosenProviderIsNotAskedAbout(t *testing.T) {
	environ, asked := paid(t)
	d := newHome(t, append(environ, "LLM_PROVIDER=openai")...).at("", "dev")
	url, token, _ := d.started()
	if _, body := call(t, http.MethodGet, url+"/api/v1/me", token, ""); strings.Contains(body, `"script"`) {
		t.Errorf("its model is called a script: %s", body)
	}
	d.end()
	if strings.Contains(d.out.String(), "[y/N]") || asked.Load() == 0 {
		t.Errorf("asked %d times\n%s", asked.Load(), d)
	}
}

// Ctrl-C ends the question.
func TestCtrlCAtTheQuestion(t *testing.T) {
	environ, _ := paid(t)
	h := newHome(t, environ...)
	ctx, stop := context.WithCancel(t.Context())
	in, typing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := newWatched()
	out.mark, out.reached = "[y/N]", stop
	c := &console{name: "lanekeeper", environ: h.environ, in: in, out: out, err: out, terminal: true}
	if code := c.code(c.run(ctx, []string{"dev"})); code != exitDone {
		t.Errorf("exit code %d: %s", code, out)
	}
	if _, err := os.Stat(h.file()); !os.IsNotExist(err) {
		t.Errorf("it made a database: %v", err)
	}
	typing.Close() // ends the read
	in.Close()
}

func configOf(t testing.TB, h home) app.Config {
	t.Helper()
	cfg, err := app.LoadConfig(h.environ)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// slowModel answers a turn when the test allows it, with the last user message. It answers a beat
// at once.
type slowModel struct {
	*httptest.Server
	asked chan string
	let   chan struct{}
}

func newSlowModel(t *testing.T) *slowModel {
	m := &slowModel{asked: make(chan string, 100), let: make(chan struct{}, 100)}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *slowModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct{ Role, Content string }
	}
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &asked)
	said := ""
	for _, one := range asked.Messages {
		if one.Role == "user" {
			said = one.Content
		}
	}
	if said == "first" || said == "second" {
		m.asked <- said
		select {
		case <-m.let:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "x", "model": "slow", "usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": "Heard " + said}}},
	})
}

// moves is the time limit within which everything continues on one host.
const moves = 20 * time.Second

// TestATurnGoesOnAfterARestart ends the process during a turn, by a signal that lets it park and by
// one that does not. After the next start the turn continues before a message that arrives then.
func TestATurnGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	binary := built(t)
	for _, engine := range []string{"sqlite", "postgres"} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(engine+"/"+signal.String(), func(t *testing.T) {
				m := newSlowModel(t)
				h := newHome(t, "LLM_PROVIDER=openai", "LLM_MODEL=slow", "OPENAI_API_KEY=x", "OPENAI_BASE_URL="+m.URL, "DEMO=0")
				if engine == "postgres" {
					h.environ = append(h.environ, "STATE_BACKEND=postgres", "DATABASE_URL="+dbtest.NewDatabase(t))
				}
				cmd, d := startIn(t, binary, h)
				url, token, _ := d.started()
				first := make(chan string, 1)
				go func() {
					answer, _ := post(url, token, `{"message":"first"}`)
					first <- answer
				}()
				select {
				case said := <-m.asked:
					if said != "first" {
						t.Fatalf("the model was asked about %q", said)
					}
				case <-time.After(time.Minute):
					t.Fatalf("the model was not asked:\n%s", d)
				}
				kill(t, cmd, signal)
				_ = cmd.Wait()
				if answer := <-first; signal == syscall.SIGTERM {
					says(t, answer, `"status":"parked"`, "the server was stopped; it goes on by itself")
				}

				begun := time.Now()
				cmd, d = startIn(t, binary, h)
				url, token = d.after("API        "), d.after("export LANEKEEPER_TOKEN=")
				second := make(chan string, 1)
				go func() {
					answer, err := post(url, token, `{"message":"second"}`)
					second <- answer + fmt.Sprint(err)
				}()
				for _, want := range []string{"first", "second"} {
					select {
					case said := <-m.asked:
						if said != want {
							t.Fatalf("the model was asked about %q, not %q", said, want)
						}
						t.Logf("%s after %s", said, time.Since(begun))
						m.let <- struct{}{}
					case <-time.After(moves):
						t.Fatalf("the %s message has not moved after %s:\n%s", want, moves, d)
					}
				}
				if answer := <-second; !strings.Contains(answer, "Heard second") {
					t.Errorf("the second is answered %s", answer)
				}
				d.out.wait(t, "next beat at")
				said := d.out.String()
				if signal == syscall.SIGKILL {
					says(t, said, "taken over from a process of this host that has died", "1 turn to go on with")
				}
				says(t, said, " goes on, attempt 2")
				if turn, beat := strings.Index(said, " goes on, attempt 2"), strings.Index(said, "\nbeat "); beat >= 0 && beat < turn {
					t.Errorf("the first beat came before the turn:\n%s", said)
				}
				kill(t, cmd, syscall.SIGTERM)
				if err := cmd.Wait(); err != nil {
					t.Errorf("it ended with %v\n%s", err, d)
				}
			})
		}
	}
}

// post sends a message to the agent.
func post(url, token, body string) (string, error) {
	r, err := http.NewRequest(http.MethodPost, url+"/api/v1/operate", strings.NewReader(body)) //nolint:noctx // it ends with the process
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// call sends a request to a dev and returns status and body.
func call(t testing.TB, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// started waits until the first beat has ended. It returns the address, the token and the trace of
// that beat.
func (r *running) started() (url, token, first string) {
	r.t.Helper()
	url, token = r.after("API        "), r.after("export LANEKEEPER_TOKEN=")
	first = r.after("/api/v1/traces/")
	r.out.wait(r.t, "next beat at")
	return url, token, first
}

func TestDevOnEveryDatabase(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testDev(t, newHome(t, "DEMO=")) })
	t.Run("postgres", func(t *testing.T) {
		testDev(t, newHome(t, "STATE_BACKEND=postgres", "DATABASE_URL="+dbtest.NewDatabase(t), "DEMO=1"))
	})
}

func testDev(t *testing.T, h home) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := h.dev()
	url, token, first := d.started()
	says(t, d.out.String(), "Lanekeeper runs.", "with demo objectives", "DEMO: a script, no language model",
		"beat "+first+" · 4 objectives active", "advance  Keep a weekly digest", "beat "+first+" completed")

	if status, body := call(t, "GET", url+"/health", "", ""); status != 200 || !strings.Contains(body, `"healthy"`) {
		t.Errorf("health: %d %s", status, body)
	}
	if status, _ := call(t, "GET", url+"/api/v1/activity", "", ""); status != 401 {
		t.Errorf("activity without a token: %d, want 401", status)
	}
	if status, _ := call(t, "GET", url+"/api/v1/activity", "not-the-token", ""); status != 401 {
		t.Errorf("activity with another token: %d, want 401", status)
	}
	if status, body := call(t, "GET", url+"/api/v1/activity?traceId="+first, token, ""); status != 200 || !strings.Contains(body, first) {
		t.Errorf("activity: %d %s", status, body)
	}
	if status, body := call(t, "GET", url+"/api/v1/traces/"+first, token, ""); status != 200 || !strings.Contains(body, `"completed"`) {
		t.Errorf("the first beat's trace: %d %s", status, body)
	}
	advanced := advancedBy(t, url, token)
	if len(advanced) < 3 {
		t.Errorf("a beat by hand advanced %q, want three objectives at least", advanced)
	}
	if status, body := call(t, "POST", url+"/api/v1/heartbeat/run", token, ""); status != 202 {
		t.Errorf("a beat in the background: %d %s", status, body)
	}
	if code := d.end(); code != exitDone || d.errs.String() != "" {
		t.Errorf("exit code %d\n%s", code, d)
	}
	says(t, d.out.String(), "stopping", "stopped")
	// In the sign-in link, and in the command to copy.
	if n := strings.Count(d.out.String(), token); n != 2 {
		t.Errorf("the token was printed %d times", n)
	}

	again := h.dev()
	url2, token2, _ := again.started()
	if token2 != token {
		t.Errorf("the token changed from %s to %s", token, token2)
	}
	if strings.Contains(again.out.String(), "with demo objectives") && !slices.Contains(h.environ, "DEMO=1") {
		t.Errorf("the demo content was made anew:\n%s", again)
	}
	if status, _ := call(t, "GET", url2+"/api/v1/traces/"+first, token, ""); status != 200 {
		t.Errorf("the first beat is forgotten: %d", status)
	}
	if code := again.end(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, again)
	}
}

// advancedBy runs a beat by hand and returns the objectives that it advanced.
func advancedBy(t *testing.T, url, token string) []string {
	t.Helper()
	status, body := call(t, "POST", url+"/api/v1/heartbeat/run", token, `{"wait":true}`)
	var answer struct {
		TraceID string
		Report  struct {
			Phases []struct {
				Name string
				Done int
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); status != 200 || err != nil {
		t.Fatalf("a beat by hand: %d %s", status, body)
	}
	var story told
	_, body = call(t, "GET", url+"/api/v1/traces/"+answer.TraceID, token, "")
	if err := json.Unmarshal([]byte(body), &story); err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, e := range story.Executions {
		if e.Input.Task == "advance" && e.Status == "completed" {
			subjects = append(subjects, e.Subject)
		}
	}
	return subjects
}

// TestStoppedInTheMiddleOfABeat stops the process at every place of a beat that shows on the
// terminal. The lanes are released, and the next start continues the beat.
func TestStoppedInTheMiddleOfABeat(t *testing.T) {
	for _, mark := range []string{
		"4 objectives active", "plan     Write", "skill plan_objective", "2 of 2 done", "advance  Keep", "skill query_activity",
		"skill advance_plan", "Step 1 of objective", "4 of 4 done",
	} {
		t.Run(mark, func(t *testing.T) {
			h := newHome(t)
			d := h.devUntil(mark)
			if code := <-d.code; code != exitDone {
				t.Fatalf("exit code %d\n%s", code, d)
			}
			says(t, d.out.String(), "stopping", "stopped")
			says(t, h.must(exitDone, "locks").out, "No lane is held.")
			next := h.must(exitDone, "trigger", "heartbeat").out
			if says(t, next, "outcome  completed"); strings.Contains(next, " left") {
				t.Errorf("the next beat has left something:\n%s", next)
			}
		})
	}
}

func TestTwoDevsOnOneFileKeepOutOfEachOthersWay(t *testing.T) {
	h := newHome(t)
	one, two := h.dev(), h.dev() // concurrently, on a file that does not exist yet
	_, token, _ := one.started()
	_, same, _ := two.started()
	if token != same {
		t.Errorf("the second has another token")
	}
	if a, b := one.end(), two.end(); a != exitDone || b != exitDone {
		t.Errorf("exit codes %d and %d\n%s\n%s", a, b, one, two)
	}
}

func TestDevSaysWhatIsInItsWay(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	damaged, image := newHome(t), newHome(t)
	damage(t, damaged)
	write(t, image.file(), "\x89PNG\r\n\x1a\n")
	folder := filepath.Join(t.TempDir(), "file")
	write(t, folder, "a file where a folder should be")
	shortToken := newHome(t)
	write(t, tokenPath(shortToken), "short\n")
	noKey := newHome(t)
	write(t, lookup(noKey.environ, "SECRET_KEY_FILE"), "a letter\n")

	for name, c := range map[string]struct {
		home home
		code int
		says []string
	}{
		"port taken": {newHome(t, "ADDR="+taken.Addr().String()), exitFailed,
			[]string{"is taken", "ADDR=", "It works on the same file, ", "SQLITE_PATH"}},
		"no such address": {newHome(t, "ADDR=203.0.113.1:80", "ADMIN_TOKEN=0123456789abcdef"), exitFailed,
			[]string{"listen on 203.0.113.1:80", "127.0.0.1:8080"}},
		"bad configuration": {newHome(t, "LOG_LEVEL=loud", "HEARTBEAT_EVERY=often", "STATE_BACKEND=mysql"), exitUsage,
			[]string{"configuration is wrong", "LOG_LEVEL", "HEARTBEAT_EVERY", "STATE_BACKEND"}},
		"damaged file":   {damaged, exitDatabase, []string{"is damaged and was moved to", "nothing was deleted", "restore a backup"}},
		"an image":       {image, exitDatabase, []string{image.file() + " is not a SQLite database: it was left as it is", "point it to another"}},
		"no folder":      {newHome(t, "SQLITE_PATH="+filepath.Join(folder, "lk.db")), exitDatabase, []string{"can't be used", folder}},
		"no Postgres":    {newHome(t, "STATE_BACKEND=postgres", "DATABASE_URL=postgres://me@127.0.0.1:1/none"), exitDatabase, []string{"Is the server that DATABASE_URL names up"}},
		"a broken token": {shortToken, exitFailed, []string{"holds no token", "remove it"}},
		"no key file":    {noKey, exitFailed, []string{"key file " + lookup(noKey.environ, "SECRET_KEY_FILE"), "or SECRET_KEY_FILE"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.home.must(c.code, "dev")
			says(t, r.err, append(c.says, "lanekeeper: ")...)
			if strings.Contains(r.err, "goroutine ") {
				t.Errorf("a stack trace:\n%s", r.err)
			}
		})
	}
}

func TestADamagedFileIsKept(t *testing.T) {
	h := newHome(t)
	content := damage(t, h)
	for _, verb := range []string{"locks", "tasks", "trigger heartbeat"} {
		r := h.must(exitDatabase, strings.Fields(verb)...)
		says(t, r.err, h.file()+" is damaged and was left as it is", "moves the file aside, with its log. Then restore a backup")
		if text, err := os.ReadFile(h.file()); err != nil || string(text) != content {
			t.Fatalf("%s has not left the file as it is: %v", verb, err)
		}
	}
	h.must(exitDatabase, "dev")
	kept, err := filepath.Glob(h.file() + ".corrupt-*[0-9]") // the name of its log ends in letters
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept: %v, %v", kept, err)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || string(text) != content {
		t.Errorf("it was changed: %v", err)
	}
	h.dev().started() // starts with a new database
}

// damage creates a database and damages it. It returns the contents of the file.
func damage(t testing.TB, h home) string {
	t.Helper()
	h.must(exitDone, "migrate")
	content, err := os.ReadFile(h.file())
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < 40_000; i++ {
		content[i] ^= 0xff
	}
	write(t, h.file(), string(content))
	return string(content)
}

// A wrong path damages no other program's file.
func TestAFileOfAnotherProgramIsLeftAlone(t *testing.T) {
	const content = "\x89PNG\r\n\x1a\n a photo"
	h := newHome(t)
	write(t, h.file(), content)
	for _, verb := range []string{"migrate", "dev", "locks", "ask hello", "doctor"} {
		code := exitDatabase
		if verb == "doctor" {
			code = exitFailed
		}
		r := h.must(code, strings.Fields(verb)...)
		says(t, r.out+r.err, h.file()+" is not a SQLite database: it was left as it is", "SQLITE_PATH")
	}
	if text, err := os.ReadFile(h.file()); err != nil || string(text) != content {
		t.Errorf("the file was changed: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(h.file())); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func TestDevStoppedBeforeItRuns(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, errs strings.Builder
	if code := run(ctx, []string{"lanekeeper", "dev"}, newHome(t).environ, strings.NewReader(""), &out, &errs); code != exitDone {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestDevForPrograms(t *testing.T) {
	h := newHome(t)
	d := h.dev("--json")
	d.out.wait(t, `"next beat"`)
	d.end()
	for line := range strings.Lines(d.out.String()) {
		var event struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Msg == "" {
			t.Errorf("not an event: %s", line)
		}
	}
	token, err := os.ReadFile(tokenPath(h))
	if err != nil || strings.Contains(d.out.String(), strings.TrimSpace(string(token))) {
		t.Errorf("the token is in the log, or in no file: %v", err)
	}
}

func TestAGivenTokenIsNotPrinted(t *testing.T) {
	h := newHome(t, "ADMIN_TOKEN=a-token-of-the-users-own")
	d := h.dev()
	url := d.after("API        ")
	d.out.wait(t, "next beat at")
	if status, _ := call(t, "GET", url+"/api/v1/activity", "a-token-of-the-users-own", ""); status != 200 {
		t.Errorf("status %d", status)
	}
	if strings.Contains(d.out.String(), "a-token-of-the-users-own") {
		t.Error("the user's token was printed")
	}
	if _, err := os.Stat(tokenPath(h)); !os.IsNotExist(err) {
		t.Errorf("it was stored: %v", err)
	}
}

func tokenPath(h home) string { return filepath.Join(filepath.Dir(h.file()), "admin-token") }

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

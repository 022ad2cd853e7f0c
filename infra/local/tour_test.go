//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// notInTheTour are the blocks of README and its guides that the test does not run, with the reasons.
var notInTheTour = map[string]string{
	"make run\n":                "the test runs what it runs, over a folder of its own",
	"make test\n":               "runs this test",
	"sam build && sam deploy\n": "needs an account of AWS",
}

// tour lists the blocks that README and its guides tell the reader to type. The output of each block
// must contain these texts in this order.
var tour = []struct {
	begins string
	says   []string
}{
	{"export LANEKEEPER_TOKEN=", []string{`"status":"healthy"`, `"items":[{`}},
	{"bin/lanekeeper trace", []string{"trace hb_", "completed", "advance: ", `"traceId":"hb_`}},
	{"json 'localhost:8080/api/v1/lanes/operate/acquire'", []string{`"token":"`, "skipped: a person works in operate", "operate", "me", "Lane operate is free"}},
	{"bin/lanekeeper ask", []string{"I saved it to memory: the shop is red", `"status":"completed"`, "event: delta", "event: done"}},
	{"EXECUTION=", []string{"event: step", "save_memory", "event: done"}},
	{"bin/lanekeeper personas", []string{`"version": 1`, "under three sentences", `"version": 0`}},
	{"THREAD=", []string{`"queued":false`, `"queued":true`, `"position":1`, `"held": true`, `"status":"completed"`}},
	{`json "localhost:8080/api/v1/threads/$THREAD/messages"`, []string{"Which documents do you have?", "See you on Monday."}},
	{`json "localhost:8080/api/v1/executions/$B/complete"`, []string{`"status":"completed"`}},
	{"json 'localhost:8080/api/v1/secrets'", []string{`"name":"mine"`, `"name":"am_i_well"`, "healthy", `"successes"`}},
	{"TURN=", []string{`"steps":[`, `"executionId":"`}},
	{"SITE=", []string{`"object":"chat.completion"`, "data: [DONE]", `"status":"completed"`, "shop.example"}},
	{"SECRET=", []string{`"status":"received"`, `"status":"duplicate"`, "shop", "order.paid"}},
	{"AGENT=", []string{`"title":"Proofread it"`, `"orders":[`, `"status":"RUNNING"`, `"status":"COMPLETED"`, `"active":true`, "Proofread it"}},
	{"bin/lanekeeper automations", []string{"Is the shop open?", "each morning", "completed", "SKILL", "WHY", "shop_status", "active", "the shop sells ice cream", "flowpilot", "releasedBy", `"key":"`}},
	{"bin/lanekeeper migrate", []string{"you@example.com is the owner", "/sign-in#token="}},
	{"json 'localhost:8080/api/v1/api-keys'", []string{`"name":"assistant"`}},
}

// TestTheTourOfREADME pastes each block of README and of its guides into the common shells, next to a
// running runner, and checks the output that they promise.
func TestTheTourOfREADME(t *testing.T) {
	binary := built(t)
	blocks := blocksOfREADME(t)
	t.Run("bash", func(t *testing.T) {
		t.Parallel()
		takeTour(t, binary, blocks, "bash", "--norc", "--noprofile", "--noediting", "-i")
	})
	t.Run("zsh", func(t *testing.T) {
		t.Parallel()
		zsh, err := servers.Zsh(t.Context())
		if err != nil && !dbtest.InCI() {
			t.Skipf("NOT RUN: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		takeTour(t, binary, blocks, zsh, "-f", "-i")
	})
}

// filesOfREADME returns README and the guides that it links, in the order of the links.
func filesOfREADME(t *testing.T) []string {
	t.Helper()
	files := []string{"../../README.md"}
	for _, found := range regexp.MustCompile(`\]\((infra/docs/[a-z]+\.md)\)`).FindAllStringSubmatch(read(t, files[0]), -1) {
		files = append(files, "../../"+found[1])
	}
	written, err := filepath.Glob("../../infra/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(written) != len(files)-1 {
		t.Errorf("infra/docs has %d guides, README links %d", len(written), len(files)-1)
	}
	return files
}

// TestLinksOfREADME follows the links of README and its guides to files of the repository.
func TestLinksOfREADME(t *testing.T) {
	for _, file := range filesOfREADME(t) {
		for _, found := range regexp.MustCompile(`(?:\]\(|src="|srcset=")([^)"#:]+)[)"#]`).FindAllStringSubmatch(read(t, file), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), found[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// read returns the text of a file.
func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocksOfREADME returns the blocks of commands of the tour, in order.
func blocksOfREADME(t *testing.T) (blocks []string) {
	t.Helper()
	for _, file := range filesOfREADME(t) {
		for _, found := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(read(t, file), -1) {
			if _, out := notInTheTour[found[1]]; !out {
				blocks = append(blocks, found[1])
			}
		}
	}
	if len(blocks) != len(tour) {
		t.Fatalf("README and its guides have %d blocks of commands, the tour %d", len(blocks), len(tour))
	}
	for i, stop := range tour {
		if !strings.HasPrefix(blocks[i], stop.begins) {
			t.Fatalf("block %d of README begins otherwise than %q:\n%s", i, stop.begins, blocks[i])
		}
		for line := range strings.Lines(blocks[i]) {
			if strings.Contains(line, "#") && !strings.Contains(line, "://") || strings.Contains(line, "…") {
				t.Errorf("a line of README can't be pasted: %s", line)
			}
		}
	}
	return blocks
}

// takeTour pastes the blocks into one shell, one after the other.
func takeTour(t *testing.T, binary string, blocks []string, shell string, args ...string) {
	folder := t.TempDir()
	link(t, binary, filepath.Join(folder, "bin", "lanekeeper"))
	addr := freeAddr(t)
	environ := []string{
		"PATH=" + onlyThese(t, "curl", "sed"), "HOME=" + folder, "TERM=dumb", "PS1=", "PS2=",
		"ADDR=" + addr, "ALLOW_PRIVATE_HOSTS=" + addr, "HEARTBEAT_EVERY=24h", // no slot is due during the tour
	}
	dev := exec.CommandContext(t.Context(), filepath.Join(folder, "bin", "lanekeeper"), "dev")
	dev.Dir, dev.Env = folder, environ
	d := &running{t: t, out: newWatched(), errs: newWatched()}
	dev.Stdout, dev.Stderr = d.out, d.errs
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	d.out.wait(t, "next beat at") // the first beat has ended

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.Dir, cmd.Env = folder, environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without the terminal of the person who runs the test
	said := newWatched()
	cmd.Stdout, cmd.Stderr = said, said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(in, "trap 'echo \"@failed with $?\"' ERR\nfalse\necho @ready\n")
	said.wait(t, "@ready")
	says(t, said.String(), "@failed with 1")
	seen := len(said.String())
	for i, block := range blocks {
		block = strings.NewReplacer("localhost:8080", addr, "127.0.0.1:8080", addr).Replace(block)
		var text string
		for try, begun := 0, time.Now(); try == 0 || late(block, text, tour[i].says) && time.Since(begun) < time.Minute; try++ {
			mark := fmt.Sprintf("@block-%d-%d-", i, try)
			fmt.Fprintf(in, "%secho %sended\n", block, mark)
			said.wait(t, mark)
			text = said.String()[seen:]
			seen += len(text)
		}
		if wrong := failure.FindString(text); wrong != "" {
			t.Errorf("block %d: %q\n%s\ncame to:\n%s", i, wrong, block, text)
		}
		rest := text
		for _, want := range tour[i].says {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("block %d: %q is missing, or comes too early\n%s\ncame to:\n%s", i, want, block, text)
				break
			}
			rest = after
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v", shell, err)
	}
	kill(t, dev, syscall.SIGTERM)
	if err := dev.Wait(); err != nil || d.errs.String() != "" {
		t.Errorf("the runner: %v\n%s", err, d)
	}
}

// late reports whether to paste a reading block again because its result is not there yet.
func late(block, text string, says []string) bool {
	return strings.HasSuffix(block, "/messages\"\n") && strings.Count(block, "\n") == 1 &&
		!strings.Contains(text, says[len(says)-1])
}

// failure matches the output of a failed command: the trap's text, a problem of the API, or an
// error of the shell or of the command.
var failure = regexp.MustCompile(`@failed with \d+|"status":[45]\d\d|not found: .*|command not found|no matches found|parse error.*|syntax error.*|bad substitution|lanekeeper: .*`)

// link links the binary into a folder.
func link(t testing.TB, from, to string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Link(from, to)); err != nil {
		t.Fatal(err)
	}
}

// onlyThese returns a folder that contains only these programs.
func onlyThese(t testing.TB, programs ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(folder, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// freeAddr returns an address on which nothing listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The tour does not run make, so this test checks what make would run.
func TestMakeRunsTheCommandOfTheTour(t *testing.T) {
	for target, want := range map[string]string{"run": "bin/lanekeeper dev", "migrate": "bin/lanekeeper migrate"} {
		out, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "-n", target).CombinedOutput()
		if err != nil {
			t.Fatalf("make -n %s: %v\n%s", target, err, out)
		}
		if lines := strings.Split(string(out), "\n"); !slices.Contains(lines, want) {
			t.Errorf("make %s does not run %s:\n%s", target, want, out)
		}
	}
}

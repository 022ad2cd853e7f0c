package engineroom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
)

// Product is a running `lanekeeper dev` with the content of the demo, on a SQLite file of its own.
type Product struct {
	URL   string
	Token string // of the admin

	cmd  *exec.Cmd
	dir  string
	said logged
}

// token is long enough for the product.
const token = "the-engine-room-of-the-tests-0123456789"

// address finds where the product says that its API is.
var address = regexp.MustCompile(`^\s*API\s+(http://\S+)`)

// Start builds the command and starts it. The context limits only the
// start.
func Start(ctx context.Context, environ ...string) (p *Product, err error) {
	p = &Product{Token: token}
	if p.dir, err = os.MkdirTemp("", "lanekeeper-room-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	binary, err := rig.Build(ctx, "github.com/lanekeeper/lanekeeper/infra/local")
	if err != nil {
		return p, err
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), binary, "dev")
	p.cmd.Dir = p.dir
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "SQLITE_PATH=" + filepath.Join(p.dir, "lk.db"), "ADDR=127.0.0.1:0",
		"ADMIN_TOKEN=" + token, "LLM_PROVIDER=demo", "DEMO=1",
	}, environ...)
	urls := make(chan string, 1)
	p.said.line = func(line []byte) {
		if found := address.FindSubmatch(line); found != nil {
			select {
			case urls <- string(found[1]):
			default:
			}
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return p, err
	}
	select {
	case p.URL = <-urls:
	case <-time.After(2 * time.Minute):
	case <-ctx.Done():
	}
	if p.URL == "" {
		return p, fmt.Errorf("lanekeeper dev did not say where it runs\n%s", p.said.String())
	}
	return p, nil
}

// StartDemo is [Start] with the demo that a newcomer gets, and waits until it is there.
func StartDemo(ctx context.Context, environ ...string) (*Product, error) {
	p, err := Start(ctx, append([]string{"DEMO="}, environ...)...)
	if err != nil {
		return p, err
	}
	for !strings.Contains(p.Said(), "demo ready") {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return p, errors.Join(fmt.Errorf("the demo did not become ready\n%s", p.Said()), p.Close())
		}
	}
	return p, nil
}

// Link returns a link that signs the person with an e-mail address in, once.
func (p *Product) Link(ctx context.Context, email string) (string, error) {
	cmd := exec.CommandContext(ctx, p.cmd.Path, "token", "--user", email, "--url", p.URL)
	cmd.Dir, cmd.Env = p.dir, p.cmd.Env
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("print a link for %s: %w", email, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Said returns what the product has written, for messages of tests.
func (p *Product) Said() string { return p.said.String() }

// Database is the path of the product's SQLite file.
func (p *Product) Database() string { return filepath.Join(p.dir, "lk.db") }

// Close ends the product and removes its files.
func (p *Product) Close() error {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		killed := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		_ = p.cmd.Wait() // its exit code says nothing about the page
		killed.Stop()
	}
	return os.RemoveAll(p.dir)
}

// Ask sends a request to the API as the admin, with body as JSON unless it is nil, and decodes the
// answer into out unless that is nil. A refusal is an error.
func (p *Product) Ask(ctx context.Context, method, path string, body, out any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, p.URL+"/api/v1"+path, sent)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+p.Token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s %s", method, path, answer.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// Open opens a page that is signed in as the admin, at a path below /engine/.
func (p *Product) Open(ctx context.Context, b *browser.Browser, o browser.Options, path string) (*browser.Page, error) {
	page, err := b.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := page.Goto(ctx, p.URL+"/sign-in#token="+p.Token); err != nil {
		return nil, err
	}
	if err := page.Until(ctx, `location.pathname === "/engine/overview"`); err != nil {
		return nil, err
	}
	return page, page.Goto(ctx, p.URL+"/engine/"+strings.TrimPrefix(path, "/"))
}

// Settled is true when nothing on the page loads any more.
const Settled = `document.querySelector("#main h1") && !document.querySelector("#main [aria-busy=true]")`

// logged collects what a process writes, and passes each line on.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
	line func([]byte)
	rest []byte
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return l.text.Write(b)
		}
		l.line(line)
		l.rest = rest
	}
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

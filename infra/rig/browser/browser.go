// Package browser drives a headless Chromium in the tests.
//
//	b, err := browser.Start(ctx)
//	defer b.Close()
//	p, err := b.Open(ctx, browser.Desktop)
//	err = p.Goto(ctx, url)
//	err = p.Until(ctx, `document.querySelector("h1")`)
//	complaints := p.Complaints()
//
// It speaks the DevTools Protocol over pipes, and needs neither a library nor a port: it uses few
// methods, all of which are stable, while the Chromium of the machine's packages is a new one every
// few weeks, for which a pinned driver may be too old. A browser ends when its pipes are closed, so
// that none outlives the test process, even after kill -9. Nothing here waits by sleeping: a test
// waits for a condition on the page.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest/servers"
)

// Browser is a running Chromium. It is safe for concurrent use.
type Browser struct {
	wire    *wire
	cmd     *exec.Cmd
	profile string
	reading sync.WaitGroup
	pipes   []*os.File
	errs    strings.Builder // what the browser says on stderr
}

// flags keep the browser from everything but the pages: no first run, no updates, no background
// requests.
var flags = []string{
	"--headless", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
	"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions",
	"--disable-sync", "--disable-breakpad", "--disable-dev-shm-usage", "--metrics-recording-only", "--mute-audio",
	"--hide-scrollbars", "--force-color-profile=srgb", "--password-store=basic", "--use-mock-keychain",
	"--disable-background-timer-throttling", "--disable-renderer-backgrounding",
	"--disable-backgrounding-occluded-windows",
	"--disable-features=Translate,MediaRouter,OptimizationHints", "--lang=en-US",
}

// Start starts a Chromium with an empty profile, and installs one where there is none. The context
// bounds only the start. It returns a [*servers.MissingError] when there is none to be had.
func Start(ctx context.Context) (*Browser, error) {
	program, err := servers.Chromium(ctx)
	if err != nil {
		return nil, err
	}
	b := &Browser{}
	if b.profile, err = os.MkdirTemp("", "lanekeeper-browser-"); err != nil {
		return nil, err
	}
	args := append([]string{"--user-data-dir=" + b.profile}, flags...)
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium refuses to be root with one
	}
	theirIn, ourOut, errIn := os.Pipe()
	ourIn, theirOut, errOut := os.Pipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, errors.Join(err, closeAll(theirIn, ourOut, ourIn, theirOut), os.RemoveAll(b.profile))
	}
	b.pipes = []*os.File{ourOut, ourIn}
	b.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, args...)
	b.cmd.Stderr = &b.errs
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut}              // 3 and 4, as the protocol has it
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}       // Ctrl-C reaches the tests first
	b.cmd.Env = append(os.Environ(), "HOME="+b.profile, "TZ=UTC") // nothing of the user's
	err = b.cmd.Start()
	err = errors.Join(err, closeAll(theirIn, theirOut))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), closeAll(b.pipes...), os.RemoveAll(b.profile))
	}
	b.wire = newWire(ourOut)
	b.reading.Go(func() { b.wire.read(ourIn) })
	if err := b.wire.call(ctx, "", "Browser.getVersion", nil, nil); err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("start %s: %w\n%s", program, err, b.errs.String())
	}
	return b, nil
}

// grace is how long a browser may take to end by itself.
const grace = 10 * time.Second

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = b.wire.call(ctx, "", "Browser.close", nil, nil) // it may have ended already
	killed := time.AfterFunc(grace, func() { _ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) })
	err := b.cmd.Wait()
	if killed.Stop() && b.cmd.ProcessState.Exited() {
		err = nil // with whatever code: it was told to
	}
	b.reading.Wait()
	return errors.Join(err, closeAll(b.pipes...), os.RemoveAll(b.profile))
}

func closeAll(files ...*os.File) (err error) {
	for _, f := range files {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// Options say what a page is shown on.
type Options struct {
	Width, Height int
	Mobile        bool // a touch screen
	// Media are preferences of the person, such as {"prefers-color-scheme": "dark"}.
	Media map[string]string
}

// Desktop is an ordinary screen, and Phone a narrow one.
var (
	Desktop = Options{Width: 1440, Height: 900}
	Phone   = Options{Width: 390, Height: 844, Mobile: true}
)

// Open opens an empty page in a profile of its own: it shares no storage with other pages.
func (b *Browser) Open(ctx context.Context, o Options) (*Page, error) {
	var profile struct{ BrowserContextID string }
	if err := b.wire.call(ctx, "", "Target.createBrowserContext", object{"disposeOnDetach": true}, &profile); err != nil {
		return nil, err
	}
	p := &Page{wire: b.wire, profile: profile.BrowserContextID}
	return p, p.open(ctx, o)
}

// Package browser drives a headless Chromium in the tests.
//
//	b, err := browser.Start(ctx)
//	defer b.Close()
//	p, err := b.Open(ctx, browser.Desktop)
//	err = p.Goto(ctx, url)
//	err = p.Until(ctx, `document.querySelector("h1")`)
//	complaints := p.Complaints()
//
// It speaks the DevTools Protocol over pipes, without a library and without a port. It uses few
// methods, which are all stable. A pinned driver could be too old for the machine's Chromium, which
// is updated every few weeks. The browser ends when its pipes are closed, so none outlives the test
// process, even after kill -9. The package does not wait by sleeping: a test waits for a condition
// on the page.
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

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
)

// Browser is a running Chromium. It is safe for concurrent use.
type Browser struct {
	wire    *wire
	cmd     *exec.Cmd
	profile string
	reading sync.WaitGroup
	pipes   []*os.File
	errs    strings.Builder // output of the browser on stderr
}

// flags turn off everything that a page does not need: the first-run page, updates, background
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

// Start starts a Chromium with an empty profile, and installs one if there is none. The context
// limits only the start. If Chromium can't be installed, the error is a [*servers.MissingError].
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
		args = append(args, "--no-sandbox") // Chromium refuses to run as root with a sandbox
	}
	theirIn, ourOut, errIn := os.Pipe()
	ourIn, theirOut, errOut := os.Pipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, errors.Join(err, closeAll(theirIn, ourOut, ourIn, theirOut), os.RemoveAll(b.profile))
	}
	b.pipes = []*os.File{ourOut, ourIn}
	b.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, args...)
	b.cmd.Stderr = &b.errs
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut}              // descriptors 3 and 4, as the protocol requires
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}       // Ctrl-C reaches the tests first
	b.cmd.Env = append(os.Environ(), "HOME="+b.profile, "TZ=UTC") // nothing of the user's home
	err = b.cmd.Start()
	err = errors.Join(err, closeAll(theirIn, theirOut))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), closeAll(b.pipes...), os.RemoveAll(b.profile))
	}
	b.wire = newWire(ourOut)
	b.reading.Go(func() { b.wire.read(ourIn) })
	if err := b.wire.call(ctx, "", nil, "Browser.getVersion", nil, nil); err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("start %s: %w\n%s", program, err, b.errs.String())
	}
	return b, nil
}

// grace is the time that a browser gets to end by itself.
const grace = 10 * time.Second

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = b.wire.call(ctx, "", nil, "Browser.close", nil, nil) // it may have ended already
	killed := time.AfterFunc(grace, func() { _ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) })
	err := b.cmd.Wait()
	if killed.Stop() && b.cmd.ProcessState.Exited() {
		err = nil // it ended as requested, whatever its exit code
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

// Options describe the screen of a page.
type Options struct {
	Width, Height int
	Mobile        bool // a touch screen
	// Media are the person's preferences, such as {"prefers-color-scheme": "dark"}.
	Media map[string]string
}

// Desktop is an ordinary screen. Phone is a narrow one.
var (
	Desktop = Options{Width: 1440, Height: 900}
	Phone   = Options{Width: 390, Height: 844, Mobile: true}
)

// Open opens an empty page in its own profile. It shares no storage with other pages.
func (b *Browser) Open(ctx context.Context, o Options) (*Page, error) {
	var profile struct{ BrowserContextID string }
	if err := b.wire.call(ctx, "", nil, "Target.createBrowserContext", object{"disposeOnDetach": true}, &profile); err != nil {
		return nil, err
	}
	p := &Page{wire: b.wire, profile: profile.BrowserContextID}
	return p, p.open(ctx, o)
}

package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// ErrClosed is returned by an invocation of a closed function.
var ErrClosed = errors.New("rig: the function is closed")

// Config configures the simulated function. Only Bootstrap is required.
type Config struct {
	Bootstrap string // path of the binary, see Build
	Name      string // function name; "function" if empty
	// Env holds the function's own variables. They override all variables that the rig sets, except
	// the Runtime API's address.
	Env           map[string]string
	Timeout       time.Duration // time-out of an invocation; 30 s if zero
	InitTimeout   time.Duration // from the start of a process until it asks for work; 10 s if zero
	Memory        int           // in MB, reported to the function but not enforced; 128 if zero
	FreezeBetween bool          // stop an idle sandbox, as Lambda does
	RetryDelay    time.Duration // between the attempts of an asynchronous invocation
}

// Env merges sets of variables for Config.Env. Later sets override earlier ones.
func Env(sets ...map[string]string) map[string]string {
	all := make(map[string]string)
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}

// Function is one simulated Lambda function. Its methods may be called concurrently.
type Function struct {
	cfg     Config
	env     []string
	spawner *spawner
	quit    chan struct{}  // closed by Close
	running sync.WaitGroup // sandboxes and asynchronous events
	once    sync.Once
	forget  func() bool // detaches Close from the context of Start

	mu      sync.Mutex
	closed  bool
	boxes   map[*sandbox]struct{} // all live sandboxes
	idle    []*sandbox            // sandboxes that wait for work, the last used one at the end
	oldLogs bytes.Buffer          // output of sandboxes that have ended
	events  map[*Event]struct{}   // asynchronous events in progress
	dead    []DeadLetter

	timedOut int // invocations
}

// Start sets up a function. No process runs before the first invocation. The function is closed
// when ctx ends, or by Close.
func Start(ctx context.Context, cfg Config) (*Function, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	f := &Function{
		cfg:     cfg,
		env:     cfg.environment(),
		spawner: newSpawner(),
		quit:    make(chan struct{}),
		boxes:   make(map[*sandbox]struct{}),
		events:  make(map[*Event]struct{}),
	}
	f.forget = context.AfterFunc(ctx, f.close)
	return f, nil
}

// complete checks the configuration and fills in its defaults.
func (c *Config) complete() error {
	path, err := filepath.Abs(c.Bootstrap)
	if err != nil {
		return fmt.Errorf("rig: bootstrap: %w", err)
	}
	if info, err := os.Stat(path); err != nil {
		return fmt.Errorf("rig: bootstrap: %w", err)
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("rig: bootstrap: %s is not a file", path)
	}
	c.Bootstrap = path
	if c.Name == "" {
		c.Name = "function"
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.InitTimeout == 0 {
		c.InitTimeout = 10 * time.Second
	}
	if c.Memory == 0 {
		c.Memory = 128
	}
	return nil
}

// environment returns the variables that are the same for every sandbox. They contain nothing of
// the test's own environment.
func (c *Config) environment() []string {
	env := map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME":        c.Name,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": fmt.Sprint(c.Memory),
		"AWS_LAMBDA_FUNCTION_VERSION":     "$LATEST",
		"AWS_REGION":                      region,
		"_HANDLER":                        "bootstrap",
		"LAMBDA_TASK_ROOT":                filepath.Dir(c.Bootstrap),
		"PATH":                            "/usr/local/bin:/usr/bin:/bin",
	}
	maps.Copy(env, c.Env)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

const region = "us-east-1"

// arn returns the ARN that the function receives with an invocation.
func (f *Function) arn() string {
	return "arn:aws:lambda:" + region + ":000000000000:function:" + f.cfg.Name
}

// Invoke runs the function on the payload and waits for the result. A failure of the function is
// reported in Result.FunctionError. Invoke itself returns an error if the rig could not run the
// function, or if ctx ended. In the latter case the invocation continues until its time-out, as on
// Lambda.
func (f *Function) Invoke(ctx context.Context, payload []byte, opts ...Option) (*Result, error) {
	inv, err := f.Begin(ctx, payload, opts...)
	if err != nil {
		return nil, err
	}
	return inv.Wait(ctx)
}

// Begin hands the payload to a warm sandbox, or starts one if all are busy. It returns a handle on
// the invocation. It returns ErrClosed after Close.
func (f *Function) Begin(ctx context.Context, payload []byte, opts ...Option) (*Invocation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inv := f.newInvocation(payload, opts)
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, ErrClosed
	}
	if last := len(f.idle) - 1; last >= 0 {
		box := f.idle[last]
		f.idle = f.idle[:last]
		box.current, inv.box = inv, box
		f.mu.Unlock()
		box.proc.thaw()
		box.work <- inv
		return inv, nil
	}
	f.running.Add(1) // until the sandbox has ended
	f.mu.Unlock()

	if err := f.launch(inv); err != nil {
		f.running.Done()
		return nil, fmt.Errorf("rig: start %s: %w", f.cfg.Name, err)
	}
	return inv, nil
}

// Retire ends all idle sandboxes, so that the next invocation is a cold start.
func (f *Function) Retire() {
	f.mu.Lock()
	idle := f.idle
	f.idle = nil
	f.mu.Unlock()
	for _, box := range idle {
		box.proc.kill()
	}
	for _, box := range idle {
		<-box.ended
	}
}

// Running returns the invocations in progress.
func (f *Function) Running() (all []*Invocation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for box := range f.boxes {
		if box.current != nil {
			all = append(all, box.current)
		}
	}
	return all
}

// TimedOut returns how many invocations were killed because their time-outs expired.
func (f *Function) TimedOut() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.timedOut
}

// Logs returns everything that the function has written to standard output and standard error. It
// returns the output of ended sandboxes first, in the order of their end, and then that of live
// ones.
func (f *Function) Logs() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := bytes.Clone(f.oldLogs.Bytes())
	for box := range f.boxes {
		all = append(all, box.logs.from(0)...)
	}
	return string(all)
}

// Close kills every process of the function and waits until all have ended. Invocations in progress
// end with a FunctionError. Asynchronous events end without a dead letter.
func (f *Function) Close() {
	f.forget()
	f.close()
}

func (f *Function) isClosed() bool {
	select {
	case <-f.quit:
		return true
	default:
		return false
	}
}

func (f *Function) close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.quit)
	}
	boxes := slices.Collect(maps.Keys(f.boxes))
	f.mu.Unlock()
	for _, box := range boxes {
		box.proc.kill()
	}
	f.running.Wait()
	f.once.Do(f.spawner.stop)
}

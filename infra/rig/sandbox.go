package rig

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// sandbox is one process and the Runtime API server from which it fetches work. It runs one
// invocation at a time.
type sandbox struct {
	f     *Function
	dir   string // HOME and TMPDIR of the process
	logs  *logFile
	srv   *server
	proc  *process
	work  chan *Invocation // holds the current invocation until it is fetched
	ended chan struct{}    // closed when the process and its server have ended

	// Guarded by f.mu.
	current *Invocation // nil while idle
	doomed  bool        // the process is being killed; the sandbox is not used again
	began   time.Time
	ready   bool          // the process has asked for work
	toReady time.Duration // time from began until ready
}

// launch starts a sandbox for the invocation. The caller has added it to f.running; reap removes
// it.
func (f *Function) launch(inv *Invocation) (err error) {
	b := &sandbox{
		f:       f,
		work:    make(chan *Invocation, 1),
		ended:   make(chan struct{}),
		current: inv,
		began:   time.Now(),
	}
	inv.box, inv.cold = b, true

	if b.dir, err = os.MkdirTemp("", "rig-"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(b.dir)
		}
	}()
	if b.logs, err = newLogFile(b.dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			b.logs.close()
		}
	}()
	if b.srv, err = serve(b.runtimeAPI()); err != nil {
		return err
	}
	// The rig's HOME and TMPDIR come first, so that the function's own variables override them. The
	// API's address comes last and cannot be overridden.
	env := slices.Concat([]string{"HOME=" + b.dir, "TMPDIR=" + b.dir}, f.env,
		[]string{"AWS_LAMBDA_RUNTIME_API=" + b.srv.addr})
	if b.proc, err = f.spawner.start(f.cfg.Bootstrap, env, b.logs.file); err != nil {
		b.srv.close()
		return err
	}

	f.mu.Lock()
	f.boxes[b] = struct{}{}
	if f.closed {
		b.proc.kill()
	}
	if !b.ready {
		inv.timer = time.AfterFunc(f.cfg.InitTimeout, inv.expire)
	}
	f.mu.Unlock()
	b.work <- inv
	go b.reap()
	return nil
}

// askedForWork is called when the process asks for its next invocation. On Lambda this request ends
// the previous invocation.
func (b *sandbox) askedForWork() {
	now := time.Now()
	b.f.mu.Lock()
	inv := b.current
	switch {
	case !b.ready: // the first request
		b.ready = true
		b.toReady = now.Sub(b.began)
		if inv != nil && inv.timer != nil {
			inv.timer.Stop()
		}
		b.f.mu.Unlock()
		return
	case inv == nil || inv.fetched.IsZero():
		b.f.mu.Unlock()
		return
	}
	inv.timer.Stop()
	b.f.mu.Unlock()

	if b.f.cfg.FreezeBetween {
		b.proc.freeze()
	}

	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	if b.doomed {
		return // killed just now; reap sets the result
	}
	if !inv.answered {
		inv.result.FunctionError = &FunctionError{Type: "Runtime.NoResponse", Message: "the runtime asked for work without a response"}
	}
	b.current = nil
	if !b.f.closed {
		b.f.idle = append(b.f.idle, b)
	}
	b.conclude(inv, now)
}

// deliver marks the invocation as fetched and starts its time-out.
func (b *sandbox) deliver(inv *Invocation) (deadline time.Time) {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	inv.fetched = time.Now()
	inv.timer = time.AfterFunc(inv.timeout, inv.expire)
	if !inv.cold {
		inv.logStart = b.logs.size()
	}
	close(inv.started)
	return inv.fetched.Add(inv.timeout)
}

// reap waits until the process has ended, cleans up after it, and ends its current invocation, if
// any.
func (b *sandbox) reap() {
	defer b.f.running.Done()
	defer close(b.ended)
	exit := b.proc.wait()
	now := time.Now()

	b.srv.drain() // the requests that the process sent before it died are still served
	_ = os.RemoveAll(b.dir)

	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	delete(b.f.boxes, b)
	b.f.idle = slices.DeleteFunc(b.f.idle, func(other *sandbox) bool { return other == b })
	b.f.oldLogs.Write(b.logs.from(0))
	if inv := b.current; inv != nil {
		b.current = nil
		if inv.timer != nil {
			inv.timer.Stop()
		}
		inv.result.Killed = wasKilled(exit)
		inv.result.TimedOut = inv.timedOut
		if inv.timedOut {
			b.f.timedOut++
		}
		if inv.result.FunctionError == nil {
			inv.result.FunctionError = inv.exitError(exit)
		}
		b.conclude(inv, now)
	}
	b.logs.close()
}

// exitError returns Lambda's error for a process that ended during an invocation.
func (inv *Invocation) exitError(exit *os.ProcessState) *FunctionError {
	e := &FunctionError{Type: "Runtime.ExitError"}
	switch {
	case inv.timedOut && inv.fetched.IsZero():
		e.Type = "Sandbox.Timedout"
		e.Message = fmt.Sprintf("RequestId: %s Error: Init timed out after %.2f seconds", inv.id, inv.f.cfg.InitTimeout.Seconds())
	case inv.timedOut:
		e.Type = "Sandbox.Timedout"
		e.Message = fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", inv.id, inv.timeout.Seconds())
	case exit.Success():
		e.Message = fmt.Sprintf("RequestId: %s Error: Runtime exited without providing a reason", inv.id)
	default:
		e.Message = fmt.Sprintf("RequestId: %s Error: Runtime exited with error: %s", inv.id, exit)
	}
	return e
}

// conclude completes the result and wakes all waiters. The caller holds f.mu.
func (b *sandbox) conclude(inv *Invocation, now time.Time) {
	r := &inv.result
	r.RequestID = inv.id
	r.Payload = inv.body.bytes()
	if len(r.Payload) == 0 && r.FunctionError != nil {
		r.Payload, _ = json.Marshal(r.FunctionError) // cannot fail, since it holds only strings
	}
	r.Cold = inv.cold
	if inv.cold {
		r.InitDuration = b.toReady
	}
	if !inv.fetched.IsZero() {
		r.Duration = now.Sub(inv.fetched)
	}
	r.Logs = string(b.logs.from(inv.logStart))
	if inv.fetched.IsZero() {
		close(inv.started) // it will not start, so nobody may wait for that
	}
	inv.body.end()
	close(inv.done)
}

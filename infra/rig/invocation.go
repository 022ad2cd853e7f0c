package rig

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrFinished is returned by a method that controls an invocation which has already ended.
var ErrFinished = errors.New("rig: the invocation has finished")

// Result is the result of an invocation.
type Result struct {
	RequestID     string
	Payload       []byte         // the response, or the error as JSON if there is no response
	ContentType   string         // of the response
	Streamed      bool           // the response was sent in streaming mode
	FunctionError *FunctionError // nil if the function succeeded
	InitDuration  time.Duration  // of a cold start; otherwise zero
	Duration      time.Duration  // from the delivery of the payload to the end
	Logs          string         // output of the sandbox during the invocation, including a cold start
	Cold          bool           // the sandbox was started for this invocation
	Killed        bool           // the process was ended by SIGKILL, whatever the cause
	TimedOut      bool           // it was killed because its time-out expired
}

// FunctionError is the failure of a function as its caller receives it.
type FunctionError struct {
	Type    string          `json:"errorType"`
	Message string          `json:"errorMessage"`
	Stack   json.RawMessage `json:"stackTrace,omitempty"`
}

// Error returns the type and the message.
func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// Option configures one invocation.
type Option func(*Invocation)

// WithTimeout replaces the function's time-out.
func WithTimeout(d time.Duration) Option { return func(inv *Invocation) { inv.timeout = d } }

// WithRequestID replaces the generated request id. A test uses it to deliver the same event again.
func WithRequestID(id string) Option { return func(inv *Invocation) { inv.id = id } }

// Invocation is one run of a function. The run may still be in progress.
type Invocation struct {
	f       *Function
	id      string
	payload []byte
	timeout time.Duration
	cold    bool
	box     *sandbox
	body    *stream       // the response as it arrives
	started chan struct{} // closed when the process has fetched the payload
	done    chan struct{} // closed when result is set

	// Guarded by f.mu until done is closed.
	fetched  time.Time
	timer    *time.Timer // of the time-out; before the payload is fetched, of the start-up time-out
	logStart int64
	answered bool // the process has begun to post a response or an error
	timedOut bool
	result   Result
}

func (f *Function) newInvocation(payload []byte, opts []Option) *Invocation {
	inv := &Invocation{
		f:       f,
		id:      newRequestID(),
		payload: bytes.Clone(payload),
		timeout: f.cfg.Timeout,
		body:    newStream(),
		started: make(chan struct{}),
		done:    make(chan struct{}),
	}
	for _, opt := range opts {
		opt(inv)
	}
	return inv
}

// PID returns the id of the process that runs the invocation. It is also the id of its process
// group.
func (inv *Invocation) PID() int { return inv.box.proc.pid }

// Started returns a channel that is closed when the process has fetched the payload, or when the
// invocation has ended before that.
func (inv *Invocation) Started() <-chan struct{} { return inv.started }

// Body returns a reader that reads the response from its beginning, as it arrives. It ends with the
// response, or with the invocation if there is no response.
func (inv *Invocation) Body() io.Reader { return inv.body.reader() }

// Wait returns the result, or the error of ctx if ctx ends first. It may be called more than once.
func (inv *Invocation) Wait(ctx context.Context) (*Result, error) {
	select {
	case <-inv.done:
		result := inv.result
		return &result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("rig: wait for %s: %w", inv.id, ctx.Err())
	}
}

// Kill ends the process by SIGKILL, as if its host had died. It returns ErrFinished if the
// invocation has already ended.
func (inv *Invocation) Kill() error {
	if !inv.doom(false) {
		return ErrFinished
	}
	inv.box.proc.kill()
	return nil
}

// expire kills the process because the time-out has expired.
func (inv *Invocation) expire() {
	if inv.doom(true) {
		inv.box.proc.kill()
	}
}

// doom marks the sandbox so that it is not used again, before its process is killed. It returns
// false if the invocation is no longer the sandbox's current one.
func (inv *Invocation) doom(timedOut bool) bool {
	inv.f.mu.Lock()
	defer inv.f.mu.Unlock()
	if inv.box.current != inv {
		return false
	}
	inv.box.doomed = true
	inv.timedOut = inv.timedOut || timedOut
	return true
}

// Freeze stops the process and returns when it has stopped. The time-out keeps running. It returns
// ErrFinished if the invocation has already ended.
func (inv *Invocation) Freeze() error {
	if !inv.isCurrent() {
		return ErrFinished
	}
	inv.box.proc.freeze()
	if inv.isCurrent() {
		return nil
	}
	// The invocation ended before the signal arrived. The process must not stay stopped, because it
	// may have received another invocation.
	inv.f.mu.Lock()
	idle := inv.box.current == nil
	inv.f.mu.Unlock()
	if !idle || !inv.f.cfg.FreezeBetween {
		inv.box.proc.thaw()
	}
	return ErrFinished
}

// Thaw continues a process that Freeze has stopped.
func (inv *Invocation) Thaw() {
	if inv.isCurrent() {
		inv.box.proc.thaw()
	}
}

func (inv *Invocation) isCurrent() bool {
	inv.f.mu.Lock()
	defer inv.f.mu.Unlock()
	return inv.box.current == inv
}

// newRequestID returns a random id in the format of Lambda's request ids.
func newRequestID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

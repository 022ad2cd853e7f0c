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

// ErrFinished is returned when an invocation is to be controlled that has
// already ended.
var ErrFinished = errors.New("rig: the invocation has finished")

// Result is how an invocation ended.
type Result struct {
	RequestID     string
	Payload       []byte         // the response, or the error as JSON where there is no response
	ContentType   string         // of the response
	Streamed      bool           // the response was sent in streaming mode
	FunctionError *FunctionError // nil if the function succeeded
	InitDuration  time.Duration  // of a cold start, else zero
	Duration      time.Duration  // from the delivery of the payload to the end
	Logs          string         // what the sandbox wrote meanwhile, the start included
	Cold          bool           // the sandbox was started for this invocation
	Killed        bool           // the process ended by SIGKILL, for whatever reason
	TimedOut      bool           // it was killed because its time was up
}

// FunctionError is the failure of a function, as its caller sees it.
type FunctionError struct {
	Type    string          `json:"errorType"`
	Message string          `json:"errorMessage"`
	Stack   json.RawMessage `json:"stackTrace,omitempty"`
}

// Error returns the type and the message.
func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// Option changes one invocation.
type Option func(*Invocation)

// WithTimeout replaces the function's time-out.
func WithTimeout(d time.Duration) Option { return func(inv *Invocation) { inv.timeout = d } }

// WithRequestID replaces the generated request id, so that an event can be
// delivered a second time.
func WithRequestID(id string) Option { return func(inv *Invocation) { inv.id = id } }

// Invocation is one run of a function that may be under way.
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
	timer    *time.Timer // of the time-out; before the payload is fetched, of the start
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

// RequestID returns the id the function sees.
func (inv *Invocation) RequestID() string { return inv.id }

// PID returns the process that runs the invocation. It is also the id of the
// process's group.
func (inv *Invocation) PID() int { return inv.box.proc.pid }

// Started is closed when the process has fetched the payload, or the
// invocation has ended before that.
func (inv *Invocation) Started() <-chan struct{} { return inv.started }

// Body reads the response from its beginning, as it arrives. It ends with the
// response, or with the invocation if there is none.
func (inv *Invocation) Body() io.Reader { return inv.body.reader() }

// Wait returns the result, or the error of ctx if that ends first. Wait may be
// called more than once.
func (inv *Invocation) Wait(ctx context.Context) (*Result, error) {
	select {
	case <-inv.done:
		result := inv.result
		return &result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("rig: wait for %s: %w", inv.id, ctx.Err())
	}
}

// Kill ends the process at once, as if its host had died. It returns
// ErrFinished if the invocation has ended before.
func (inv *Invocation) Kill() error {
	if !inv.doom(false) {
		return ErrFinished
	}
	inv.box.proc.kill()
	return nil
}

// expire kills the process because its time is up.
func (inv *Invocation) expire() {
	if inv.doom(true) {
		inv.box.proc.kill()
	}
}

// doom takes the sandbox out of use for its process to be killed. It reports
// whether the invocation is still the sandbox's current one.
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

// Freeze stops the process where it is and returns when it stands still. Its
// time-out goes on. It returns ErrFinished if the invocation has ended before.
func (inv *Invocation) Freeze() error {
	if !inv.isCurrent() {
		return ErrFinished
	}
	inv.box.proc.freeze()
	if inv.isCurrent() {
		return nil
	}
	// It ended before the signal arrived. The process must not stay stopped
	// for that: another invocation may have been given to it.
	inv.f.mu.Lock()
	idle := inv.box.current == nil
	inv.f.mu.Unlock()
	if !idle || !inv.f.cfg.FreezeBetween {
		inv.box.proc.thaw()
	}
	return ErrFinished
}

// Thaw lets a process that Freeze has stopped go on.
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

// newRequestID returns a random id of the shape that Lambda's have.
func newRequestID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

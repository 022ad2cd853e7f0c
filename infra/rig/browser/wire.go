package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// wire is a connection to a browser over a pair of pipes. It carries JSON messages of the DevTools
// Protocol, each ended by a zero byte.
type wire struct {
	out   *os.File
	ended chan struct{} // closed when nothing more can be read

	mu      sync.Mutex // guards the fields below, and writing
	last    int
	waiting map[int]chan reply
	heard   map[string]func(event) // by session; the reader calls the functions, which must not block
}

// message is a message of the browser: a reply if it has an id, else an event.
type message struct {
	ID int `json:"id"`
	reply
	event
	Session string `json:"sessionId"`
}

type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
		Data    string `json:"data"`
	} `json:"error"`
}

type event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

var (
	// errGone says that the browser has ended.
	errGone = errors.New("the browser has ended")
	// errCrashed says that the process of the page has ended.
	errCrashed = errors.New("the page has crashed")
)

func newWire(out *os.File) *wire {
	return &wire{out: out, ended: make(chan struct{}), waiting: map[int]chan reply{}, heard: map[string]func(event){}}
}

// read dispatches the browser's messages until the pipe ends.
func (w *wire) read(in io.Reader) {
	defer close(w.ended)
	for r := bufio.NewReader(in); ; {
		raw, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil {
			return
		}
		w.mu.Lock()
		answer, tell := w.waiting[m.ID], w.heard[m.Session]
		delete(w.waiting, m.ID)
		w.mu.Unlock()
		switch {
		case m.ID != 0 && answer != nil:
			answer <- m.reply
		case m.ID == 0 && tell != nil:
			tell(m.event)
		}
	}
}

// hear makes fn receive the events of a session; nil: no function receives them.
func (w *wire) hear(session string, fn func(event)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard[session] = fn; fn == nil {
		delete(w.heard, session)
	}
}

// call runs a method in a session, or in none if session is empty, and waits for its end, or until crashed is
// closed. It decodes the result unless result is nil.
func (w *wire) call(ctx context.Context, session string, crashed <-chan struct{}, method string, params, result any) error {
	answer := make(chan reply, 1)
	if err := w.send(session, method, params, answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			return fmt.Errorf("%s: %s %s", method, r.Error.Message, r.Error.Data)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(r.Result, result)
	case <-crashed:
		return fmt.Errorf("%s: %w", method, errCrashed)
	case <-w.ended:
		return fmt.Errorf("%s: %w", method, errGone)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

func (w *wire) send(session, method string, params any, answer chan reply) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	raw, err := json.Marshal(struct {
		ID      int    `json:"id"`
		Session string `json:"sessionId,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{w.last, session, method, params})
	if err != nil {
		return err
	}
	w.waiting[w.last] = answer
	if _, err := w.out.Write(append(raw, 0)); err != nil {
		return errors.Join(errGone, err)
	}
	return nil
}

package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"syscall"
)

// Point is one arrival of a process at a fault point.
type Point struct {
	Seq  int    // the how manyth arrival it is at this driver, from 0
	Name string // which place in the code
	Key  string // which unit of work
	PID  int    // the process, which waits there for the answer
}

// Action is what a test makes of a process that has come to a fault point.
type Action int

// The actions.
const (
	Continue Action = iota // go on
	Kill                   // end it by SIGKILL, there and then
	Freeze                 // stop it by SIGSTOP until Thaw
	Fail                   // make the point return an error
)

// Faults is the driver of all fault points, and the way to the ledger. Points
// hit inside the test's own process can be frozen, which makes the caller of
// the point wait, but not killed: that makes them fail.
type Faults struct {
	srv    *server
	ledger *Ledger
	hits   *journal[Point] // to whose processes the action has been done

	mu      sync.Mutex
	onPoint func(Point) Action
	points  []Point
	waited  map[string]int        // by name, where the next WaitFor starts in hits
	frozen  map[int]chan struct{} // by Point.Seq, closed to thaw
	closed  bool
}

// StartFaults starts a driver that asks onPoint what to do at each point; nil
// means always to go on. It is asked for one point at a time.
func StartFaults(onPoint func(Point) Action) (*Faults, error) {
	d := &Faults{
		ledger: newLedger(),
		hits:   newJournal[Point](),
		waited: make(map[string]int),
		frozen: make(map[int]chan struct{}),
	}
	d.OnPoint(onPoint)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /point", d.point)
	mux.HandleFunc("POST /effect", d.effect)
	var err error
	if d.srv, err = serve(mux); err != nil {
		return nil, fmt.Errorf("rig: start the fault driver: %w", err)
	}
	return d, nil
}

// Env is what a function's environment must have for its bootstrap, built with
// the tag "faults", to find the driver.
func (d *Faults) Env() map[string]string { return map[string]string{"LK_FAULT_URL": d.srv.url()} }

// Ledger returns the record of the effects reported to this driver.
func (d *Faults) Ledger() *Ledger { return d.ledger }

// OnPoint replaces the function that decides; nil means always to go on. The
// function must not call the driver.
func (d *Faults) OnPoint(decide func(Point) Action) {
	if decide == nil {
		decide = func(Point) Action { return Continue }
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onPoint = decide
}

// Points returns all arrivals in their order, so that a first run without
// faults tells what points there are to be killed at.
func (d *Faults) Points() []Point {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Point(nil), d.points...)
}

// WaitFor waits until a process has come to the point of this name and the
// action has been done to it: a frozen process stands still. Each arrival is
// returned once, so that calling WaitFor n times waits for n of them.
func (d *Faults) WaitFor(ctx context.Context, name string) (Point, error) {
	for {
		d.mu.Lock()
		from := d.waited[name]
		d.mu.Unlock()
		i, p, err := d.hits.wait(ctx, from, func(p Point) bool { return p.Name == name })
		if err != nil {
			return Point{}, fmt.Errorf("rig: wait for the point %s: %w", name, err)
		}
		d.mu.Lock()
		mine := d.waited[name] == from // nobody else has taken it meanwhile
		if mine {
			d.waited[name] = i + 1
		}
		d.mu.Unlock()
		if mine {
			return p, nil
		}
	}
}

// Thaw lets the process frozen at this point go on. It does nothing if it is
// not frozen.
func (d *Faults) Thaw(p Point) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if thaw, ok := d.frozen[p.Seq]; ok {
		close(thaw)
		delete(d.frozen, p.Seq)
	}
}

// Close thaws all that is frozen and ends the server.
func (d *Faults) Close() {
	d.mu.Lock()
	d.closed = true
	for seq, thaw := range d.frozen {
		close(thaw)
		delete(d.frozen, seq)
	}
	d.mu.Unlock()
	d.srv.close()
}

// point is called by a process that has come to a point, and answers when it
// may go on.
func (d *Faults) point(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Point, Key string
		PID        int
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	p := Point{Seq: len(d.points), Name: in.Point, Key: in.Key, PID: in.PID}
	d.points = append(d.points, p)
	action := d.onPoint(p)
	var thawed chan struct{}
	if action == Freeze && !d.closed {
		thawed = make(chan struct{})
		d.frozen[p.Seq] = thawed
	}
	d.mu.Unlock()

	own := p.PID == os.Getpid()
	var err error
	switch {
	case action == Kill && own:
		err = errors.New("a test does not kill its own process")
	case action == Kill:
		err = signal(p.PID, syscall.SIGKILL)
	case action == Fail:
		err = errors.New("told to fail by the test")
	case thawed != nil && !own:
		if err = signal(p.PID, syscall.SIGSTOP); err == nil {
			awaitStop(p.PID)
		}
	}
	d.hits.add(p)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case action == Kill:
		<-r.Context().Done() // its end closes the connection
	case thawed != nil:
		select {
		case <-thawed:
		case <-r.Context().Done(): // killed while frozen, or the driver is being closed
		}
		if !own {
			_ = signal(p.PID, syscall.SIGCONT) // fails if it was killed
		}
	}
}

// signal sends a signal to the one process that has come to a point. Unlike
// what a sandbox does, it leaves the rest of the group alone.
func signal(pid int, sig syscall.Signal) error {
	if pid <= 1 {
		return fmt.Errorf("there is no process %d to be signalled", pid)
	}
	return syscall.Kill(pid, sig)
}

// effect is called by a process that has had an effect.
func (d *Faults) effect(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Effect, Key string
		PID         int
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.ledger.effects.add(Effect{Name: in.Effect, Key: in.Key, PID: in.PID})
}

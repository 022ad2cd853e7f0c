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
	Seq  int    // number of the arrival at this driver, from 0
	Name string // name of the fault point
	Key  string // key of the unit of work
	PID  int    // the process, which waits for the response
}

// Action is what the driver does to a process at a fault point.
type Action int

// The actions.
const (
	Continue Action = iota // let it continue
	Kill                   // end it by SIGKILL at once
	Freeze                 // stop it by SIGSTOP until Thaw
	Fail                   // make the point return an error
)

// Faults is the driver of all fault points and serves the ledger. Points in the test's own process
// can be frozen, which blocks the caller of the point. They cannot be killed: Kill makes them fail
// instead.
type Faults struct {
	srv    *server
	ledger *Ledger
	hits   *journal[Point] // arrivals whose action has been applied

	mu      sync.Mutex
	onPoint func(Point) Action
	points  []Point
	waited  map[string]int        // by name: the index in hits where the next WaitFor starts
	frozen  map[int]chan struct{} // by Point.Seq: closed to thaw
	closed  bool
}

// StartFaults starts a driver that calls onPoint at each arrival to choose the action. A nil
// onPoint means Continue. Calls of onPoint are not concurrent.
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

// Env returns the variables that a function needs to find the driver. Its bootstrap must be built
// with the tag "faults".
func (d *Faults) Env() map[string]string { return map[string]string{"LK_FAULT_URL": d.srv.url()} }

// Ledger returns the record of the effects that were reported to this driver.
func (d *Faults) Ledger() *Ledger { return d.ledger }

// OnPoint replaces the function that chooses the action; nil means Continue. The function must not
// call the driver.
func (d *Faults) OnPoint(decide func(Point) Action) {
	if decide == nil {
		decide = func(Point) Action { return Continue }
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onPoint = decide
}

// Points returns all arrivals in order. A test can run once without faults to learn at which points
// it can kill the process.
func (d *Faults) Points() []Point {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Point(nil), d.points...)
}

// WaitFor waits until a process has arrived at the point of this name and the action has been
// applied; a frozen process has stopped by then. Each arrival is returned once, so n calls wait for
// n arrivals.
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
		mine := d.waited[name] == from // no other caller has taken this arrival
		if mine {
			d.waited[name] = i + 1
		}
		d.mu.Unlock()
		if mine {
			return p, nil
		}
	}
}

// Thaw continues the process that is frozen at this point. It does nothing if the process is not
// frozen.
func (d *Faults) Thaw(p Point) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if thaw, ok := d.frozen[p.Seq]; ok {
		close(thaw)
		delete(d.frozen, p.Seq)
	}
}

// Close thaws all frozen processes and ends the server.
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

// point serves a process that has arrived at a point. It responds when the process may continue.
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
		<-r.Context().Done() // the end of the process closes the connection
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

// signal sends a signal to the process that arrived at a point. Unlike the signals of a sandbox, it
// does not reach the rest of the process group.
func signal(pid int, sig syscall.Signal) error {
	if pid <= 1 {
		return fmt.Errorf("there is no process %d to be signalled", pid)
	}
	return syscall.Kill(pid, sig)
}

// effect serves a process that reports an effect.
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

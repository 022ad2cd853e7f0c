package rig

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// server is an HTTP server on a free loopback port.
type server struct {
	http *http.Server
	addr string
	done chan struct{} // closed when it has stopped accepting connections
}

func serve(handler http.Handler) (*server, error) {
	var loopback net.ListenConfig
	listener, err := loopback.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{
		// Clients that are killed during a request are normal in the rig and are not logged.
		http: &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)},
		addr: listener.Addr().String(),
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // returns on close
	}()
	return s, nil
}

func (s *server) url() string { return "http://" + s.addr }

// close ends the server and cuts its open requests.
func (s *server) close() {
	_ = s.http.Close() // fails only if the listener is closed already
	<-s.done
}

// drain waits until the open requests have been served, for at most 5 s, and ends the server. It is
// called when the client has ended.
func (s *server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.http.Shutdown(ctx) // cuts the rest
	s.close()
}

// reply writes the body of a response. It ignores errors, because only a client that has
// disconnected causes them.
func reply(w http.ResponseWriter, body []byte) { _, _ = w.Write(body) }

// replyJSON writes a value as JSON. The value must be encodable.
func replyJSON(w http.ResponseWriter, value any) { _ = json.NewEncoder(w).Encode(value) }

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

// server is an HTTP server on a free port of loopback.
type server struct {
	http *http.Server
	addr string
	done chan struct{} // closed when it no longer accepts
}

func serve(handler http.Handler) (*server, error) {
	var loopback net.ListenConfig
	listener, err := loopback.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{
		// Clients that are killed in the middle of a request are the rig's
		// daily business, and not worth a line each.
		http: &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)},
		addr: listener.Addr().String(),
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // ends by close
	}()
	return s, nil
}

func (s *server) url() string { return "http://" + s.addr }

// close ends the server and cuts off whoever it is serving.
func (s *server) close() {
	_ = s.http.Close() // fails only for a listener that is closed already
	<-s.done
}

// drain ends the server when all requests under way have been served. Their
// client has ended, so that is soon.
func (s *server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.http.Shutdown(ctx) // what is left is cut off
	s.close()
}

// reply writes the body of an answer. A client that has gone does not get it,
// and nobody needs to know.
func reply(w http.ResponseWriter, body []byte) { _, _ = w.Write(body) }

// replyJSON is reply for a value that is always encodable.
func replyJSON(w http.ResponseWriter, value any) { _ = json.NewEncoder(w).Encode(value) }

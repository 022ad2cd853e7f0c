package rig

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// maxResponse is the largest buffered response that Lambda accepts, in bytes.
const maxResponse = 6 << 20

// Names from AWS's documentation of the Runtime API.
const (
	headerRequestID    = "Lambda-Runtime-Aws-Request-Id"
	headerDeadline     = "Lambda-Runtime-Deadline-Ms"
	headerARN          = "Lambda-Runtime-Invoked-Function-Arn"
	headerTraceID      = "Lambda-Runtime-Trace-Id"
	headerResponseMode = "Lambda-Runtime-Function-Response-Mode"
	headerErrorType    = "Lambda-Runtime-Function-Error-Type" // of a request, or in the trailer of a stream
	trailerErrorBody   = "Lambda-Runtime-Function-Error-Body"
	typeHTTPStream     = "application/vnd.awslambda.http-integration-response"
)

// runtimeAPI serves the part of the Runtime API that a bootstrap uses.
func (b *sandbox) runtimeAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", b.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", b.response)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", b.failed)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", b.initError)
	return mux
}

// next responds with the next invocation as soon as there is one.
func (b *sandbox) next(w http.ResponseWriter, r *http.Request) {
	b.askedForWork()
	select {
	case inv := <-b.work:
		deadline := b.deliver(inv)
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set(headerRequestID, inv.id)
		h.Set(headerDeadline, strconv.FormatInt(deadline.UnixMilli(), 10))
		h.Set(headerARN, b.f.arn())
		h.Set(headerTraceID, newTraceHeader())
		reply(w, inv.payload)
	case <-r.Context().Done(): // the process has ended
	}
}

// response receives the response. Readers get it while it is still arriving.
func (b *sandbox) response(w http.ResponseWriter, r *http.Request) {
	inv, ok := b.claim(w, r)
	if !ok {
		return
	}
	contentType := r.Header.Get("Content-Type")
	streamed := r.Header.Get(headerResponseMode) == "streaming" || contentType == typeHTTPStream
	body := io.Reader(r.Body)
	if !streamed {
		body = http.MaxBytesReader(w, r.Body, maxResponse)
	}
	_, err := io.Copy(inv.body, body)

	var failure *FunctionError
	status := http.StatusAccepted
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		failure = &FunctionError{Type: "Function.ResponseSizeTooLarge", Message: fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", maxResponse)}
		status = http.StatusRequestEntityTooLarge
	case err != nil:
		failure = nil // the process has ended; its exit gives the reason
		status = http.StatusBadRequest
	case r.Trailer.Get(headerErrorType) != "":
		failure = trailerError(r.Trailer)
	}
	b.f.mu.Lock()
	inv.result.ContentType, inv.result.Streamed = contentType, streamed
	inv.result.FunctionError = failure
	b.f.mu.Unlock()
	inv.body.end()
	acknowledge(w, status)
}

// trailerError decodes the error that ended a stream.
func trailerError(trailer http.Header) *FunctionError {
	failure := new(FunctionError)
	text, err := base64.StdEncoding.DecodeString(trailer.Get(trailerErrorBody))
	if err == nil {
		err = json.Unmarshal(text, failure)
	}
	if err != nil {
		failure.Message = fmt.Sprintf("the error of the stream cannot be read: %v", err)
	}
	if failure.Type == "" {
		failure.Type = trailer.Get(headerErrorType)
	}
	return failure
}

// failed receives the error that the handler returned.
func (b *sandbox) failed(w http.ResponseWriter, r *http.Request) {
	inv, ok := b.claim(w, r)
	if !ok {
		return
	}
	failure := requestError(r)
	b.f.mu.Lock()
	inv.result.FunctionError = failure
	b.f.mu.Unlock()
	acknowledge(w, http.StatusAccepted)
}

// initError receives the reason why the process cannot start. It fails the invocation that started
// the process.
func (b *sandbox) initError(w http.ResponseWriter, r *http.Request) {
	failure := requestError(r)
	b.f.mu.Lock()
	if !b.ready && b.current != nil {
		b.current.result.FunctionError = failure
	}
	b.f.mu.Unlock()
	acknowledge(w, http.StatusAccepted)
}

// requestError decodes the error in the body of a request.
func requestError(r *http.Request) *FunctionError {
	failure := new(FunctionError)
	if err := json.NewDecoder(r.Body).Decode(failure); err != nil {
		failure.Message = fmt.Sprintf("the error is not JSON: %v", err)
	}
	if failure.Type == "" {
		failure.Type = r.Header.Get(headerErrorType)
	}
	return failure
}

// claim returns the invocation that a response or an error belongs to. It accepts one response, and
// only for the current invocation.
func (b *sandbox) claim(w http.ResponseWriter, r *http.Request) (*Invocation, bool) {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	inv := b.current
	if inv == nil || inv.fetched.IsZero() || inv.answered || inv.id != r.PathValue("id") {
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "not the invocation under way, or already answered")
		return nil, false
	}
	inv.answered = true
	return inv, true
}

func acknowledge(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status == http.StatusAccepted {
		reply(w, []byte(`{"status":"OK"}`))
	}
}

func refuse(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	replyJSON(w, FunctionError{Type: kind, Message: text})
}

// newTraceHeader returns an X-Ray header that is not sampled.
func newTraceHeader() string {
	var b [24]byte
	rand.Read(b[:])
	return fmt.Sprintf("Root=1-%x-%x;Parent=%x;Sampled=0", b[:4], b[4:16], b[16:])
}

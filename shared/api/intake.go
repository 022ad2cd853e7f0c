package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/problem"
)

const (
	maxBody  = 1 << 20
	bodyTime = 10 * time.Second // for a body to arrive
)

// intake refuses what no schema can: bodies that are too large or no JSON, and
// text that no database takes. What passes is handed on in one form.
func (s *server) intake(rt route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, p := checkQuery(r.URL)
		var body []byte
		if p == nil {
			body, p = readBody(w, r)
		}
		if !writes(r.Method) {
			body = nil // it says nothing
		} else if p == nil {
			p = checkBody(body)
		}
		if p != nil {
			s.refuse(w, r, p)
			return
		}
		r = r.WithContext(r.Context()) // a copy
		to := *r.URL
		to.RawQuery = query
		r.URL, r.Body = &to, io.NopCloser(bytes.NewReader(body))
		r.Header = r.Header.Clone()
		if !rt.stream {
			r.Header.Del("Accept") // there is JSON only
		}
		r.Header.Set("Content-Type", "application/json")
		next.ServeHTTP(w, r)
	})
}

func writes(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// checkQuery is the query in one form, each parameter once.
func checkQuery(u *url.URL) (string, *problem.Problem) {
	if u.RawQuery == "" {
		return "", nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", problem.New(http.StatusBadRequest, "malformed", "the query can't be read")
	}
	var fields []problem.FieldError
	for name, values := range query {
		at := located("query." + name)
		if len(values) > 1 {
			fields = append(fields, problem.At(at, "given more than once"))
		}
		if why := unfit(name + values[0]); why != "" {
			fields = append(fields, problem.At(at, why))
		}
	}
	if fields != nil {
		return "", invalid(fields...)
	}
	return query.Encode(), nil
}

// expectBody gives the body of a request its time to arrive. The deadline stands until
// all of the body has been read: net/http reads the rest before it answers who is refused.
func expectBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // where there is a connection
	}
}

// readBody is the body, or an empty object where there is none.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem.Problem) {
	if r.Body == nil {
		return []byte("{}"), nil
	}
	tooLarge := problem.New(http.StatusRequestEntityTooLarge, "too_large", "a body has 1 MiB at most")
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		w.Header().Set("Connection", "close") // the rest of the body is not waited for
		return nil, problem.New(http.StatusRequestTimeout, "timeout", "the body did not arrive in time")
	}
	if err != nil {
		return nil, problem.New(http.StatusBadRequest, "malformed", "the body can't be read")
	}
	// Left standing, the deadline would end the request's context when it passes.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if writes(r.Method) && !isJSON(r.Header) {
		return nil, problem.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "a body is application/json in UTF-8, not encoded")
	}
	return body, nil
}

// isJSON reports whether a body says that it is JSON, or says nothing.
func isJSON(h http.Header) bool {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return false
	}
	if h.Get("Content-Type") == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := params["charset"]
	return err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

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
	bodyTime = 10 * time.Second // time limit for receiving a body
)

// intake refuses what no schema can refuse: bodies that are too large or not JSON, and text that
// the database cannot store. It passes other requests on with a normalized query and Content-Type.
func (s *server) intake(rt route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, p := checkQuery(r.URL)
		var body []byte
		if p == nil {
			body, p = readBody(w, r)
		}
		if !writes(r.Method) {
			body = nil // the body has no meaning for this method
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
			r.Header.Del("Accept") // the response is always JSON
		}
		r.Header.Set("Content-Type", "application/json")
		next.ServeHTTP(w, r)
	})
}

func writes(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// checkQuery returns the normalized query. It refuses a parameter that occurs twice.
func checkQuery(u *url.URL) (string, *problem.Problem) {
	if u.RawQuery == "" {
		return "", nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", problem.New(http.StatusBadRequest, "malformed", "the query can't be read")
	}
	var fields []problem.FieldError
	spellOut(query)
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

// spellOut renames comparisons: priority>=8 means minPriority=8, and priority<=8 maxPriority=8. The
// first arrives as the parameter "priority>", or as "priority>=8" where the caller has escaped it.
func spellOut(query url.Values) {
	for name, values := range query {
		at := strings.IndexAny(name, "<>")
		if at < 1 {
			continue
		}
		number, ok := strings.CutPrefix(name[at+1:], "=")
		if !ok && name[at+1:] != "" {
			continue
		}
		if number != "" {
			values[0] += number // of an escaped one it is empty
		}
		bound := "min"
		if name[at] == '<' {
			bound = "max"
		}
		delete(query, name)
		bound += strings.ToUpper(name[:1]) + name[1:at]
		query[bound] = append(query[bound], values...)
	}
}

// expectBody sets the deadline for receiving a request's body. The deadline must stay until the
// whole body is read, because net/http reads the rest of the body before it sends a refusal.
func expectBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // fails only without a connection
	}
}

// readBody returns the body, or an empty object if there is none.
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
		w.Header().Set("Connection", "close") // do not wait for the rest of the body
		return nil, problem.New(http.StatusRequestTimeout, "timeout", "the body did not arrive in time")
	}
	if err != nil {
		return nil, problem.New(http.StatusBadRequest, "malformed", "the body can't be read")
	}
	// A deadline that is not removed would cancel the request's context when it passes.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if writes(r.Method) && !isJSON(r.Header) {
		return nil, problem.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "a body is application/json in UTF-8, not encoded")
	}
	return body, nil
}

// isJSON reports whether the headers of a body declare JSON, or declare nothing.
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

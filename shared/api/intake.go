package api

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/lanekeeper/lanekeeper/shared/intake"
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
		switch {
		case p != nil && rt.path == mcpPath && p.Status == http.StatusBadRequest:
			refuseMessage(w, r, jsonrpc.CodeParseError, p)
			return
		case p != nil && rt.path == mcpPath && p.Status == http.StatusUnprocessableEntity:
			refuseMessage(w, r, jsonrpc.CodeInvalidRequest, p)
			return
		case p != nil:
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
		if tags := r.Header.Values("If-Match"); len(tags) > 1 { // one list, on several lines
			r.Header.Set("If-Match", strings.Join(tags, ","))
		}
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

// readBody returns the body, or an empty object if there is none. ServeHTTP has set the deadline.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem.Problem) {
	body, _, p := intake.Read(w, r, intake.Limits{Size: maxBody})
	if p != nil {
		return nil, p
	}
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if writes(r.Method) {
		return body, intake.JSON(r.Header)
	}
	return body, nil
}

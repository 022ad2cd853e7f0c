package outbound

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// MaxRedirects is the largest number of redirects that are followed.
const MaxRedirects = 5

// redirect returns the next request when resp is a redirect, or nil when resp is the final
// response. As in net/http, resp is also final when the request's body would have to be sent again
// and can't be.
func (c *Client) redirect(hop *http.Request, resp *http.Response, followed int) (*http.Request, error) {
	method, withBody, ok := method(hop, resp.StatusCode)
	location := resp.Header.Get("Location")
	if !ok || location == "" {
		return nil, nil
	}
	if followed == MaxRedirects {
		return nil, &BlockedError{Rule: RuleRedirect, Detail: "more than " + strconv.Itoa(MaxRedirects) + " redirects"}
	}
	if len(location) > maxURL {
		return nil, &BlockedError{Rule: RuleRedirect, Detail: "its location is too long"}
	}
	to, err := hop.URL.Parse(location)
	if err != nil { // its text repeats the location
		return nil, &BlockedError{Rule: RuleRedirect, Detail: "its location is not a URL"}
	}
	to.Fragment, to.RawFragment = "", ""
	h, err := c.checkURL(to)
	if err != nil {
		return nil, err
	}
	if hop.URL.Scheme == "https" && to.Scheme == "http" {
		return nil, &BlockedError{Rule: RuleDowngrade, Host: h.name, Detail: "from https to http"}
	}

	next := hop.Clone(hop.Context())
	next.Method, next.URL, next.Host = method, to, ""
	next.Body, next.GetBody, next.ContentLength = nil, nil, 0
	next.TransferEncoding, next.Trailer = nil, nil
	if !sameOrigin(hop.URL, to) {
		if method != http.MethodGet && method != http.MethodHead {
			return nil, &BlockedError{Rule: RuleRedirect, Host: h.name, Detail: "a request other than GET and HEAD is not sent on to another origin"}
		}
		withBody = false
		next.Header = harmless(hop.Header)
	}
	if !withBody {
		for _, about := range []string{"Content-Encoding", "Content-Language", "Content-Location", "Content-Type"} {
			next.Header.Del(about)
		}
		return next, nil
	}
	next.GetBody, next.ContentLength = hop.GetBody, hop.ContentLength
	next.Body, err = hop.GetBody()
	return next, err
}

// method returns the method of the request after a redirect, and whether its body is sent again. ok
// is false when there is no redirect to follow.
func method(hop *http.Request, status int) (method string, withBody, ok bool) {
	method = hop.Method
	if method == "" {
		method = http.MethodGet
	}
	hasBody := hop.Body != nil && hop.Body != http.NoBody
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if method != http.MethodHead {
			method = http.MethodGet
		}
		return method, false, true
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return method, hasBody, !hasBody || hop.GetBody != nil
	default:
		return "", false, false
	}
}

// sameOrigin reports whether a request may go from one URL to the other with all its headers and
// its body. Scheme, host and port must be equal, or only the scheme changes, from http to https on
// the default ports.
func sameOrigin(from, to *url.URL) bool {
	a, b := origin(from), origin(to)
	if a.name == b.name && from.Scheme == "http" && to.Scheme == "https" && a.port == 80 && b.port == 443 {
		return true
	}
	return from.Scheme == to.Scheme && a == b
}

// origin returns the host of a checked URL.
func origin(u *url.URL) host {
	h, _ := splitHost(u.Host)
	if h.port == 0 {
		h.port = 80
		if u.Scheme == "https" {
			h.port = 443
		}
	}
	return h
}

// harmless returns the headers of a request that another origin may see.
func harmless(all http.Header) http.Header {
	some := http.Header{}
	for name, values := range all {
		switch http.CanonicalHeaderKey(name) {
		case "Accept", "Accept-Encoding", "Accept-Language", "User-Agent", TraceHeader:
			some[name] = values
		}
	}
	return some
}

// drain reads the short body that most redirects have, so that the connection can be reused.
func drain(body io.ReadCloser) {
	const little = 2 << 10
	_, _ = io.CopyN(io.Discard, body, little)
	_ = body.Close()
}

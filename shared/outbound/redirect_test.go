package outbound_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

// hops is a network whose server redirects by path, and records what it was sent.
type hops struct {
	*network
	next func(r *http.Request) (status int, location string) // 0: no redirect

	mu   sync.Mutex
	seen []hop
}

type hop struct {
	method, host, body string
	header             http.Header
}

func newHops(t *testing.T, next func(r *http.Request) (int, string)) *hops {
	h := &hops{next: next}
	h.network = newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.seen = append(h.seen, hop{r.Method, r.Host, string(body), r.Header})
		h.mu.Unlock()
		if status, location := h.next(r); status != 0 {
			w.Header().Set("Location", location)
			w.WriteHeader(status)
		}
	})
	h.names = func(string) []string { return []string{public4} }
	return h
}

// once redirects requests to a host, and answers all others.
func once(host string, status int, location string) func(*http.Request) (int, string) {
	return func(r *http.Request) (int, string) {
		if r.Host == host {
			return status, location
		}
		return 0, ""
	}
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "Referer", "Mcp-Session-Id", "Webhook-Signature"} {
		req.Header.Set(name, "hunter2")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "text/plain")
	return req
}

func TestRedirectsToAnotherOriginLoseAllThatMayBeSecret(t *testing.T) {
	for _, to := range []string{"http://b.test/", "http://a.test:8080/", "http://sub.a.test/", "//b.test/", "http://a.test.b.test/"} {
		for _, status := range redirects {
			h := newHops(t, once("a.test", status, to))
			for _, d := range []doer{h.client(t), h.client(t).HTTPClient(), &http.Client{Transport: h.client(t).Transport()}} {
				h.seen = nil
				if _, _, err := send(d, request(t, http.MethodGet, "http://a.test/?key=hunter2", "")); err != nil {
					t.Fatalf("%d to %s: %v", status, to, err)
				}
				first, last := h.seen[0], h.seen[1]
				if len(h.seen) != 2 || first.header.Get("X-Api-Key") != "hunter2" || first.header.Get("Authorization") != "hunter2" {
					t.Errorf("%d to %s: the first request had %v", status, to, first.header)
				}
				if strings.Contains(fmt.Sprint(last.header), "hunter2") || last.header.Get("Accept") != "application/json" || last.method != http.MethodGet {
					t.Errorf("%d to %s: the other origin was sent %s %v", status, to, last.method, last.header)
				}
			}
		}
	}
}

// TestRedirectsThatComeBackBringNoSecret: headers that were removed do not return when redirects
// lead back.
func TestRedirectsThatComeBackBringNoSecret(t *testing.T) {
	h := newHops(t, func(r *http.Request) (int, string) {
		switch r.Host + r.URL.Path {
		case "a.test/":
			return 302, "http://b.test/"
		case "b.test/":
			return 302, "http://a.test/end"
		}
		return 0, ""
	})
	if _, _, err := send(h.client(t), request(t, http.MethodGet, "http://a.test/", "")); err != nil || len(h.seen) != 3 {
		t.Fatalf("%v after %d requests", err, len(h.seen))
	}
	if strings.Contains(fmt.Sprint(h.seen[2].header), "hunter2") {
		t.Errorf("the way back was sent %v", h.seen[2].header)
	}
}

func TestRedirectsWithinAnOriginKeepHeaders(t *testing.T) {
	for _, to := range []string{"/end", "end", "http://a.test/end", "http://A.TEST:80/end", "?end"} {
		h := newHops(t, func(r *http.Request) (int, string) {
			if strings.Contains(r.RequestURI, "end") {
				return 0, ""
			}
			return 302, to
		})
		if _, _, err := send(h.client(t), request(t, http.MethodGet, "http://a.test/", "")); err != nil || len(h.seen) != 2 {
			t.Fatalf("%s: %v after %d requests", to, err, len(h.seen))
		}
		if got := h.seen[1].header.Get("X-Api-Key"); got != "hunter2" {
			t.Errorf("%s: the second request had the key %q", to, got)
		}
	}
}

func TestRedirectsDecideMethodAndBody(t *testing.T) {
	for _, test := range []struct {
		method string
		status int
		to     string
		want   string // method and body of the second request; empty: refused
	}{
		{"GET", 301, "/end", "GET "}, {"GET", 308, "/end", "GET "},
		{"HEAD", 302, "/end", "HEAD "}, {"HEAD", 303, "/end", "HEAD "}, {"HEAD", 307, "http://b.test/end", "HEAD "},
		{"POST", 301, "/end", "GET "}, {"POST", 302, "/end", "GET "}, {"POST", 303, "/end", "GET "},
		{"POST", 307, "/end", "POST body"}, {"PUT", 308, "/end", "PUT body"},
		{"POST", 303, "http://b.test/end", "GET "},
		{"POST", 307, "http://b.test/end", ""}, {"PUT", 308, "http://b.test/end", ""}, {"DELETE", 307, "http://b.test/end", ""},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			h := newHops(t, func(r *http.Request) (int, string) {
				if r.URL.Path == "/end" {
					return 0, ""
				}
				return test.status, test.to
			})
			body := ""
			if test.method == "POST" || test.method == "PUT" {
				body = "body"
			}
			_, _, err := send(h.client(t), request(t, test.method, "http://a.test/", body))
			if test.want == "" {
				mustRefuse(t, err, outbound.RuleRedirect)
				if len(h.seen) != 1 {
					t.Errorf("%d requests were sent", len(h.seen))
				}
				return
			}
			if err != nil || len(h.seen) != 2 {
				t.Fatalf("%v after %d requests", err, len(h.seen))
			}
			last := h.seen[1]
			if got := last.method + " " + last.body; got != test.want {
				t.Errorf("second request %q, want %q", got, test.want)
			}
			if body != "" && (last.header.Get("Content-Type") != "") != (last.body != "") {
				t.Errorf("with the body %q went the type %q", last.body, last.header.Get("Content-Type"))
			}
		})
	}
}

// TestRedirectOfABodyThatCannotBeSentAgain: a body that can be read only once is not sent again;
// the redirect is the response.
func TestRedirectOfABodyThatCannotBeSentAgain(t *testing.T) {
	h := newHops(t, once("a.test", 307, "/end"))
	for _, d := range []doer{h.client(t), h.client(t).HTTPClient()} {
		req := request(t, http.MethodPost, "http://a.test/", "body")
		req.GetBody = nil
		if status, _, err := send(d, req); err != nil || status != 307 {
			t.Errorf("%d, %v", status, err)
		}
	}
}

func TestRedirectsEnd(t *testing.T) {
	for name, next := range map[string]func(*http.Request) (int, string){
		"loop":       func(*http.Request) (int, string) { return 302, "/" },
		"two hosts":  func(r *http.Request) (int, string) { return 307, "http://b" + r.Host + "/" },
		"never ends": func(r *http.Request) (int, string) { return 301, r.URL.Path + "a" },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHops(t, next)
			_, _, err := get(t, h.client(t), "http://a.test/")
			mustRefuse(t, err, outbound.RuleRedirect)
			if want := outbound.MaxRedirects + 1; len(h.seen) != want {
				t.Errorf("%d requests were sent, want %d", len(h.seen), want)
			}
		})
	}
	h := newHops(t, func(r *http.Request) (int, string) {
		if len(r.URL.Path) > outbound.MaxRedirects {
			return 0, ""
		}
		return 302, r.URL.Path + "a"
	})
	if status, _, err := get(t, h.client(t), "http://a.test/"); err != nil || status != 200 {
		t.Errorf("after %d redirects: %d, %v", outbound.MaxRedirects, status, err)
	}
}

func TestRedirectsThatAreRefused(t *testing.T) {
	for location, rule := range map[string]outbound.Rule{
		"ftp://b.test/":                 outbound.RuleScheme,
		"file:///etc/passwd":            outbound.RuleScheme,
		"http:b.test":                   outbound.RuleURL,
		"http://user:hunter2@b.test/":   outbound.RuleUserInfo,
		"http://b.test:0/?key=hunter2":  outbound.RulePort,
		"http://%zz/?key=hunter2":       outbound.RuleRedirect,
		"http://10.0.0.1/?key=hunter2":  outbound.RuleAddress,
		"http://169.254.169.254/latest": outbound.RuleMetadata,
		"//[::1]/":                      outbound.RuleAddress,
		"/" + strings.Repeat("a", 9000): outbound.RuleRedirect,
	} {
		h := newHops(t, once("a.test", 302, location))
		_, _, err := get(t, h.client(t), "http://a.test/?key=hunter2")
		mustRefuse(t, err, rule)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error repeats a secret: %v", location, err)
		}
		if _, astray := h.network.seen(); len(astray) > 0 || len(h.seen) != 1 {
			t.Errorf("%s: dialled %v, %d requests", location, astray, len(h.seen))
		}
	}
}

func TestDoOnceLeavesRedirectsToTheCaller(t *testing.T) {
	h := newHops(t, once("a.test", 302, "http://10.0.0.1/"))
	resp, err := h.client(t).DoOnce(request(t, http.MethodPost, "http://a.test/", "body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 302 || resp.Header.Get("Location") != "http://10.0.0.1/" || len(h.seen) != 1 {
		t.Errorf("%d to %q after %d requests", resp.StatusCode, resp.Header.Get("Location"), len(h.seen))
	}
}

func TestStatusWithoutLocationIsTheAnswer(t *testing.T) {
	for _, status := range []int{300, 302, 304, 305, 308} {
		h := newHops(t, once("a.test", status, ""))
		if got, _, err := get(t, h.client(t), "http://a.test/"); err != nil || got != status {
			t.Errorf("%d: %d, %v", status, got, err)
		}
	}
}

// secure returns a TLS server in addition to the network's own, and a client that knows both.
func secure(t *testing.T, h *hops, handler http.HandlerFunc) (*httptest.Server, *outbound.Client) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, newClient(t, func(o *outbound.Options) {
		o.RootCAs, o.AllowPrivateHosts = roots, []string{"127.0.0.1"}
	})
}

func TestRedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	h := newHops(t, func(*http.Request) (int, string) { return 0, "" })
	s, c := secure(t, h, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Location", h.server.URL+"/")
			w.WriteHeader(http.StatusFound)
		}
	})
	if status, _, err := get(t, c, s.URL+"/end"); err != nil || status != 200 {
		t.Errorf("https: %d, %v", status, err)
	}
	_, _, err := get(t, c, s.URL+"/")
	mustRefuse(t, err, outbound.RuleDowngrade)
	if len(h.seen) > 0 {
		t.Errorf("%d requests by http", len(h.seen))
	}

	h.next = func(*http.Request) (int, string) { return 308, s.URL + "/end" }
	if status, _, err := get(t, c, h.server.URL); err != nil || status != 200 {
		t.Errorf("from http to https: %d, %v", status, err)
	}
}

// TestUpgradeIsTheSameOrigin: http://host and https://host are the same origin.
func TestUpgradeIsTheSameOrigin(t *testing.T) {
	for _, test := range []struct {
		from, to string
		same     bool
	}{
		{"http://a.test/", "https://a.test/", true},
		{"http://a.test:80/", "https://A.test:443/b", true},
		{"http://a.test/", "http://a.test:80/", true},
		{"http://a.test:8080/", "https://a.test/", false},
		{"http://a.test/", "https://a.test:8443/", false},
		{"http://a.test/", "https://b.test/", false},
		{"https://a.test/", "http://a.test/", false},
		{"http://[::ffff:1.1.1.1]/", "http://1.1.1.1/", false},
		{"http://[2606:4700::1]/", "http://[2606:4700:0::1]:80/", true},
	} {
		if got := outbound.SameOrigin(t, test.from, test.to); got != test.same {
			t.Errorf("%s to %s: %t", test.from, test.to, got)
		}
	}
}

// TestRedirectWithALargeBody: the body of a redirect is not read completely.
func TestRedirectWithALargeBody(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Location", "/end")
			w.WriteHeader(http.StatusFound)
			for range 1000 {
				if _, err := w.Write(bytes.Repeat([]byte("a"), 64<<10)); err != nil {
					return
				}
			}
			t.Error("all of 64 MB was taken")
		}
	})
	c := n.client(t)
	if status, _, err := get(t, c, n.server.URL); err != nil || status != 200 {
		t.Errorf("%d, %v", status, err)
	}
	if !slices.Equal([]string{n.address(), n.address()}, n.reached) {
		t.Errorf("connections %v: what was not read was kept", n.reached)
	}
}

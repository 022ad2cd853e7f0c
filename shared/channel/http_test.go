package channel_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// canary is a key: whsec_ and base64.
const canary = "whsec_Y2FuYXJ5LW9mLWEtc2lnbmluZy1rZXk="

// overHTTP returns the channel. It may reach the test's own servers.
func overHTTP(t testing.TB, s channel.Secret, servers ...*httptest.Server) *channel.HTTP {
	t.Helper()
	var open []string
	for _, server := range servers {
		open = append(open, server.Listener.Addr().String())
	}
	return &channel.HTTP{Client: guarded(t, outbound.Options{AllowPrivateHosts: open}), Secret: s, Clock: func() time.Time { return now }}
}

func message(address string) channel.Message {
	return channel.Message{Key: "message:0190d0a8-1", Thread: "0190d0a8-2", Address: address, Body: "Hello & <good> day"}
}

// The example in the specification of Standard Webhooks.
func TestSignatureOfTheSpecification(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	channel.Sign(h, [][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	got := h.Get("Webhook-Signature")
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
}

func TestWhatIsPosted(t *testing.T) {
	var header http.Header
	var raw []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		raw, _ = io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.RequestURI() != "/in?x=1" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusAccepted)
	})
	for text, key := range map[string]string{canary: "canary-of-a-signing-key", "any-other-text": "any-other-text", " pasted\n": "pasted"} {
		m := message(s.URL + "/in?x=1")
		m.Metadata = map[string]string{"ticket": "7"}
		if err := overHTTP(t, is(text), s).Send(trace.With(t.Context(), "hb_0mh8c1v2q_a7x2p1k9d4"), m); err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(raw, &body); err != nil || len(body) != 4 || body["id"] != m.Key || body["threadId"] != m.Thread || body["body"] != m.Body || body["metadata"].(map[string]any)["ticket"] != "7" {
			t.Errorf("posted %s", raw)
		}
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(header.Get("webhook-id") + "." + header.Get("webhook-timestamp") + "."))
		mac.Write(raw)
		version, signature, _ := strings.Cut(header.Get("webhook-signature"), ",")
		got, err := base64.StdEncoding.DecodeString(signature)
		if version != "v1" || err != nil || !hmac.Equal(got, mac.Sum(nil)) {
			t.Errorf("%s does not verify", header.Get("webhook-signature"))
		}
		if header.Get("webhook-id") != m.Key || header.Get("webhook-timestamp") != strconv.FormatInt(now.Unix(), 10) ||
			header.Get("Content-Type") != "application/json" || header.Get("X-Trace-Id") != "hb_0mh8c1v2q_a7x2p1k9d4" {
			t.Errorf("headers are %v", header)
		}
	}
	if err := overHTTP(t, is(canary), s).Send(t.Context(), message(s.URL+"/in?x=1")); err != nil || !bytes.Contains(raw, []byte(`"metadata":{}`)) {
		t.Errorf("without metadata: %v, %s", err, raw)
	}
}

// The receiver sees the same id however often a message is sent. A dot in a key can't shift the
// boundaries of the signed parts.
func TestTheKeyIsTheID(t *testing.T) {
	var ids []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.Header.Get("webhook-id"))
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	h := overHTTP(t, is(canary), s)
	for _, key := range []string{"k:1", "k:1", "k.1", "k.1", "k.2", "ö\r\nX: y", strings.Repeat("k", 300)} {
		m := message(s.URL)
		m.Key = key
		if got := class(h.Send(t.Context(), m)); got != "again" {
			t.Errorf("%q: %s", key, got)
		}
	}
	if len(ids) != 7 || ids[0] != "k:1" || ids[1] != ids[0] || ids[2] != ids[3] || ids[2] == ids[4] || strings.ContainsAny(strings.Join(ids, ""), ". ") || len(ids[6]) > 64 {
		t.Errorf("the ids are %q", ids)
	}
}

func TestAnswers(t *testing.T) {
	for status, want := range map[int]string{
		200: "sent", 202: "sent", 204: "sent",
		301: "permanent", 307: "permanent", 400: "permanent", 401: "permanent", 403: "permanent", 404: "permanent", 422: "permanent",
		410: "dead",
		408: "again", 409: "again", 425: "again", 429: "again", 500: "again", 502: "again", 503: "again", 504: "again",
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "what a receiver says")
		})
		err := overHTTP(t, is(canary), s).Send(t.Context(), message(s.URL))
		if class(err) != want {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
		if err == nil {
			continue
		}
		answer, ok := errors.AsType[*channel.AnswerError](err)
		if !ok || answer.Status != status || strings.Contains(err.Error(), "says") || want == "again" && (answer.After != 30*time.Second || !strings.Contains(err.Error(), "after 30s")) {
			t.Errorf("%d: %#v, %v", status, answer, err)
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for header, want := range map[string]time.Duration{"5": 5 * time.Second, "99999": time.Hour, "-1": 0, "soon": 0, "99999999999999999999": 0, "": 0} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		err := overHTTP(t, is(canary), s).Send(t.Context(), message(s.URL))
		if answer, ok := errors.AsType[*channel.AnswerError](err); !ok || answer.After != want {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// The receiver knows the id, so an interrupted attempt is repeated.
func TestWhatIsCutOffIsSentAgain(t *testing.T) {
	for name, h := range cuts {
		ctx, cancel := context.WithCancel(t.Context())
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { h(w, r, cancel) })
		if err := overHTTP(t, is(canary), s).Send(ctx, message(s.URL)); class(err) != "again" {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	if err := overHTTP(t, is(canary), closed).Send(t.Context(), message(closed.URL)); class(err) != "again" {
		t.Errorf("nobody listens: %v", err)
	}
}

// cuts are ways to leave a request without an answer.
var cuts = map[string]func(http.ResponseWriter, *http.Request, context.CancelFunc){
	"no answer":     func(w http.ResponseWriter, _ *http.Request, _ context.CancelFunc) { hijacked(w, "") },
	"half a status": func(w http.ResponseWriter, _ *http.Request, _ context.CancelFunc) { hijacked(w, "HTTP/1.1 2") },
	"no HTTP":       func(w http.ResponseWriter, _ *http.Request, _ context.CancelFunc) { hijacked(w, "hello") },
	"given up": func(_ http.ResponseWriter, r *http.Request, giveUp context.CancelFunc) {
		giveUp()
		<-r.Context().Done()
	},
}

func TestAReceiverThatHangs(t *testing.T) {
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s := serve(t, hangs)
	h := overHTTP(t, is(canary))
	h.Client = guarded(t, outbound.Options{AllowPrivateHosts: []string{s.Listener.Addr().String()}, Timeout: 100 * time.Millisecond})
	err := h.Send(t.Context(), message(s.URL))
	if _, late := errors.AsType[*outbound.TimeoutError](err); !late || class(err) != "again" {
		t.Errorf("http: %v", err)
	}
	slack := slackOf(t, is(token), hangs)
	err = slack.Send(outbound.WithTimeout(t.Context(), time.Second), message("C024BE91L"))
	if _, late := errors.AsType[*outbound.TimeoutError](err); !late || class(err) != "uncertain" {
		t.Errorf("slack: %v", err)
	}
}

func TestWhatIsNeverPosted(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
	damaged, away := errors.Join(secret.ErrDamaged), errors.New("the database is away")
	long := message(s.URL)
	long.Metadata = map[string]string{"x": strings.Repeat("x", 2<<20)}
	empty := message(s.URL)
	empty.Body = ""
	for name, c := range map[string]struct {
		h    *channel.HTTP
		m    channel.Message
		want string
	}{
		"a private host":         {overHTTP(t, is(canary)), message(s.URL), "permanent"},
		"no secret":              {overHTTP(t, fails(&secret.NotFoundError{Name: "x"}), s), message(s.URL), "permanent"},
		"a damaged secret":       {overHTTP(t, fails(damaged), s), message(s.URL), "permanent"},
		"a secret not there yet": {overHTTP(t, fails(away), s), message(s.URL), "again"},
		"an empty secret":        {overHTTP(t, is(" "), s), message(s.URL), "permanent"},
		"a secret of two words":  {overHTTP(t, is("canary-of a-key"), s), message(s.URL), "permanent"},
		"no base64":              {overHTTP(t, is("whsec_canary-of-a-key"), s), message(s.URL), "permanent"},
		"no key behind whsec_":   {overHTTP(t, is("whsec_"), s), message(s.URL), "permanent"},
		"too much metadata":      {overHTTP(t, is(canary), s), long, "permanent"},
		"no text":                {overHTTP(t, is(canary), s), empty, "permanent"},
		"no address":             {overHTTP(t, is(canary), s), message(""), "permanent"},
	} {
		if err := c.h.Send(t.Context(), c.m); class(err) != c.want || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if err := overHTTP(t, is(canary)).Send(t.Context(), message(s.URL)); !errors.Is(err, outbound.ErrBlocked) {
		t.Errorf("the guard is not told apart: %v", err)
	}
}

// A receiver that echoes everything, in every way, gets no secret and no address into an error.
func TestAnErrorShowsNeitherSecretNorAddress(t *testing.T) {
	for _, status := range []int{302, 400, 410, 500} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.URL.String())
			w.Header().Set("Retry-After", r.Header.Get("webhook-signature"))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "canary "+r.Header.Get("webhook-signature"))
		})
		err := overHTTP(t, is(canary), s).Send(t.Context(), message(s.URL+"/canary-of-a-path?token=canary"))
		if err == nil || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "v1,") {
			t.Errorf("%d: %v", status, err)
		}
	}
	cut := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hijacked(w, "HTTP/1.1 canary "+r.Header.Get("webhook-signature")+"\r\n\r\n")
	})
	if err := overHTTP(t, is(canary), cut).Send(t.Context(), message(cut.URL+"/canary-of-a-path")); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}

func TestTwoDeliveriesUseOneConnection(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(read(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := &channel.HTTP{Client: guarded(t, outbound.Options{AllowPrivateHosts: []string{u.Host}}), Secret: is("key"), Clock: time.Now}
	for _, key := range []string{"a", "b"} {
		if err := h.Send(t.Context(), channel.Message{Key: key, Address: s.URL, Body: "Hello"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
}

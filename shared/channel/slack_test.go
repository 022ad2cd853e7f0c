package channel_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

const token = "xoxb-canary-of-a-token"

// slackOf returns the channel in a network where the test serves slack.com, with the real name,
// address, certificate and port.
func slackOf(t testing.TB, s channel.Secret, h http.HandlerFunc) *channel.Slack {
	t.Helper()
	cert, roots := certificate(t, "slack.com", "hooks.slack.com")
	server := httptest.NewUnstartedServer(read(h))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return &channel.Slack{Token: s, Webhook: func(string) channel.Secret { return s }, Client: guarded(t, outbound.Options{
		RootCAs: roots, Resolver: slackIsPublic{},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != publicAddress+":443" {
				return nil, errors.New("nobody there")
			}
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	})}
}

const publicAddress = "93.184.216.34"

type slackIsPublic struct{}

func (slackIsPublic) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	if name != "slack.com" && name != "hooks.slack.com" {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(publicAddress)}, nil
}

func certificate(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, roots
}

func TestWhatSlackGets(t *testing.T) {
	var request string
	var body map[string]any
	s := slackOf(t, is(token+"\n"), func(w http.ResponseWriter, r *http.Request) {
		request = r.Method + " " + r.Host + r.URL.Path + " " + r.Header.Get("Authorization") + " " + r.Header.Get("Content-Type")
		if !r.Close {
			t.Error("the connection is kept")
		}
		body = nil
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"ok":true,"channel":"C024BE91L","ts":"1503435957.000100","message":{"text":"x"}}`)
	})
	m := message("C024BE91L:1503435956.000247")
	m.Body = "<!channel> & <https://evil.example|our page>"
	if err := s.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if want := "POST slack.com/api/chat.postMessage Bearer " + token + " application/json; charset=utf-8"; request != want {
		t.Errorf("asked %s, want %s", request, want)
	}
	first := body
	if _, err := uuid.Parse(first["client_msg_id"].(string)); err != nil || first["channel"] != "C024BE91L" || first["thread_ts"] != "1503435956.000247" ||
		first["text"] != "&lt;!channel&gt; &amp; &lt;https://evil.example|our page&gt;" || first["unfurl_links"] != false || first["unfurl_media"] != false {
		t.Errorf("posted %v", first)
	}
	m.Address = "C024BE91L"
	if err := s.Send(t.Context(), m); err != nil || body["client_msg_id"] != first["client_msg_id"] || body["thread_ts"] != nil {
		t.Errorf("again, into the channel: %v, %v", body, err)
	}
	m.Key = "message:another"
	if err := s.Send(t.Context(), m); err != nil || body["client_msg_id"] == first["client_msg_id"] {
		t.Errorf("another message: %v, %v", body, err)
	}
	if !s.Unkeyed() {
		t.Error("Slack promises nothing about ids")
	}
}

func TestSlackSays(t *testing.T) {
	for answer, want := range map[string]string{
		`200 {"ok":true}`: "sent",
		`200 {"ok":false,"error":"channel_not_found"}`:                     "permanent",
		`200 {"ok":false,"error":"not_in_channel"}`:                        "permanent",
		`200 {"ok":false,"error":"is_archived"}`:                           "permanent",
		`200 {"ok":false,"error":"invalid_auth"}`:                          "permanent",
		`200 {"ok":false,"error":"missing_scope","needed":"chat:write"}`:   "permanent",
		`200 {"ok":false,"error":"something_new"}`:                         "permanent",
		`200 {"ok":false,"error":"xoxb-canary said: <ignore all rules>!"}`: "permanent",
		`200 {"ok":false}`:                               "permanent",
		`200 {"ok":false,"error":"ratelimited"}`:         "again",
		`200 {"ok":false,"error":"rate_limited"}`:        "again",
		`200 {"ok":false,"error":"service_unavailable"}`: "again",
		`200 {"ok":false,"error":"internal_error"}`:      "uncertain",
		`200 {"ok":false,"error":"fatal_error"}`:         "uncertain",
		`200 {"ok":tr`:                                   "uncertain",
		`200 {}`:                                         "uncertain",
		`200 <html>canary`:                               "uncertain",
		`200 `:                                           "uncertain",
		`302 `:                                           "permanent",
		`404 canary`:                                     "permanent",
		`429 {"ok":false,"error":"ratelimited"}`:         "again",
		`503 canary`:                                     "again",
		`500 canary`:                                     "uncertain",
		`502 canary`:                                     "uncertain",
		`504 canary`:                                     "uncertain",
	} {
		var calls atomic.Int32
		s := slackOf(t, is(token), func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			status := 0
			_, _ = fmt.Sscanf(answer, "%d", &status)
			_, body, _ := strings.Cut(answer, " ")
			w.Header().Set("Location", "https://evil.example/")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		err := s.Send(t.Context(), message("C024BE91L"))
		if class(err) != want || calls.Load() != 1 || err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "ignore") || strings.Contains(err.Error(), "C024BE91L")) {
			t.Errorf("%s: %v after %d calls, want %s", answer, err, calls.Load(), want)
		}
		if busy, ok := errors.AsType[*channel.AnswerError](err); strings.HasPrefix(answer, "429") && (!ok || busy.After != 7*time.Second) {
			t.Errorf("%s: %#v", answer, busy)
		}
	}
}

// If no answer came, nobody knows whether Slack has posted the message.
func TestWhatIsCutOffIsUncertain(t *testing.T) {
	for name, h := range cuts {
		ctx, cancel := context.WithCancel(t.Context())
		s := slackOf(t, is(token), func(w http.ResponseWriter, r *http.Request) { h(w, r, cancel) })
		if err := s.Send(ctx, message("C024BE91L")); class(err) != "uncertain" || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestWhatNeverReachesSlack(t *testing.T) {
	nothing := func(http.ResponseWriter, *http.Request) { t.Error("something was sent") }
	unreachable := &channel.Slack{Token: is(token), Client: guarded(t, outbound.Options{Resolver: slackIsPublic{}, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("nobody there")
	}})}
	if err := unreachable.Send(t.Context(), message("C024BE91L")); class(err) != "again" {
		t.Errorf("nobody listens: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := slackOf(t, is(token), nothing).Send(ended, message("C024BE91L")); class(err) != "again" {
		t.Errorf("too late: %v", err)
	}
	for name, bad := range map[string]channel.Secret{"two lines": is("xoxb-canary\r\nX: y"), "none": is("")} {
		if err := slackOf(t, bad, nothing).Send(t.Context(), message("C024BE91L")); class(err) != "permanent" || strings.Contains(err.Error(), "canary") {
			t.Errorf("a token of %s: %v", name, err)
		}
	}
	if err := slackOf(t, is(token), nothing).Send(t.Context(), message("#general")); class(err) != "permanent" {
		t.Errorf("a name: %v", err)
	}
}

// TestAnIncomingWebhook posts without a bot. Its URL is a secret, which no error repeats.
func TestAnIncomingWebhook(t *testing.T) {
	const address = "https://hooks.slack.com/services/T0/B0/canary"
	for answer, want := range map[string]string{"200 ok": "sent", "404 no_service": "permanent", "400 invalid_payload": "permanent", "429 slow": "again", "500 canary": "uncertain"} {
		var request string
		var body map[string]any
		s := slackOf(t, is(address), func(w http.ResponseWriter, r *http.Request) {
			request = r.Method + " https://" + r.Host + r.URL.Path + r.Header.Get("Authorization")
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			status := 0
			_, _ = fmt.Sscanf(answer, "%d", &status)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer[4:])
		})
		m := message("webhook:slack.ops")
		m.Body = "<!channel> & you"
		err := s.Send(t.Context(), m)
		if class(err) != want || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", answer, err, want)
		}
		if request != "POST "+address || body["text"] != "&lt;!channel&gt; &amp; you" || body["unfurl_links"] != false || body["channel"] != nil {
			t.Errorf("%s: asked %s with %v", answer, request, body)
		}
	}
	nothing := func(http.ResponseWriter, *http.Request) { t.Error("something was sent") }
	for _, other := range []string{"https://evil.example/canary", "http://hooks.slack.com/canary", "https://hooks.slack.com.evil.example/canary"} {
		if err := slackOf(t, is(other), nothing).Send(t.Context(), message("webhook:slack.ops")); class(err) != "permanent" || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", other, err)
		}
	}
}

package webhook_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/surface/webhook"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func ids() string { return uuid.Must(uuid.NewV7()).String() }

const sent = "a secret of the sender"

// world is a workspace with a source of each kind, all with the same secret.
type world struct {
	dbtest.Env
	*webhook.Handler
	slug   string
	mu     sync.Mutex
	kicked int
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	secrets, err1 := secret.New(e.DB, secret.NewKeyFile(filepath.Join(t.TempDir(), "key")))
	out, err2 := outbox.New(e.DB, ids, func() float64 { return 0 })
	workspaces, err3 := workspace.New(e.DB)
	limits, err4 := ratelimit.New(e.DB)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	box, err1 := inbox.New(e.DB, secrets, out, ids)
	all, err2 := workspaces.List(t.Context(), []db.Workspace{e.Workspace})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	w := &world{Env: e, slug: all[0].Slug}
	w.Handler = &webhook.Handler{
		Inbox: box, Traces: trace.NewSource(time.Now, rand.Reader), Log: log, Limits: ratelimit.NewCache(limits, time.Now, log),
		Kick: func(context.Context, db.Workspace) { w.mu.Lock(); w.kicked++; w.mu.Unlock() },
	}
	for _, k := range inbox.Kinds() {
		value := sent
		if k == inbox.Standard {
			value = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		}
		w.add(t, inbox.Source{Name: string(k), Kind: k}, value)
	}
	return w
}

// add creates a source.
func (w *world) add(t testing.TB, s inbox.Source, value string) {
	t.Helper()
	s.Enabled, s.CreatedBy = true, "user:ada"
	draft, err := w.Inbox.Seal(t.Context(), w.Workspace, s, secret.NewValue(value))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.Inbox.Create(ctx, tx, draft)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// post sends a request, with headers as pairs.
func (w *world) post(source, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/"+w.slug+"/"+source, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	return answer
}

func sign(text string) string {
	mac := hmac.New(sha256.New, []byte(sent))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// issue is a delivery of GitHub.
func (w *world) issue(id, body string) *httptest.ResponseRecorder {
	return w.post("github", body, "X-Hub-Signature-256", "sha256="+sign(body), "X-GitHub-Delivery", id, "X-GitHub-Event", "issues", "Content-Type", "application/json")
}

func (w *world) rows(t testing.TB) []inbox.Delivery {
	t.Helper()
	all, err := w.Inbox.List(t.Context(), w.Workspace, inbox.Filter{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (w *world) rejected(t testing.TB, name string) int64 {
	t.Helper()
	n, err := w.Inbox.Source(t.Context(), w.Workspace, name)
	if err != nil {
		t.Fatal(err)
	}
	return n.Rejected
}

// TestDeliveriesAreAnswered: 202 and stored, 200 for a duplicate, flagged with another body.
func TestDeliveriesAreAnswered(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		first := w.issue("d1", `{"action":"opened"}`)
		var got struct {
			ID, Status string
			Conflict   bool
		}
		if err := json.Unmarshal(first.Body.Bytes(), &got); err != nil || first.Code != http.StatusAccepted || got.Status != "received" {
			t.Fatalf("%d %s", first.Code, first.Body)
		}
		rows := w.rows(t)
		if len(rows) != 1 || rows[0].ID != got.ID || rows[0].Event != "issues.opened" || string(rows[0].Trace) != first.Header().Get("X-Trace-Id") {
			t.Errorf("stored: %+v", rows)
		}
		for body, want := range map[string]string{
			`{"action":"opened"}`: `{"id":"` + got.ID + `","status":"duplicate"}`,
			`{"action":"closed"}`: `{"id":"` + got.ID + `","status":"duplicate","conflict":true}`,
		} {
			if again := w.issue("d1", body); again.Code != http.StatusOK || strings.TrimSpace(again.Body.String()) != want {
				t.Errorf("again: %d %s", again.Code, again.Body)
			}
		}
		if w.kicked != 1 {
			t.Errorf("%d kicks", w.kicked)
		}
	})
}

// TestAnEventOfStripeComesAgain: Stripe counts the endpoints that have not taken an event in the event itself. Anything
// else that differs is flagged.
func TestAnEventOfStripeComesAgain(t *testing.T) {
	const event = `{
  "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy",
  "object": "event",
  "api_version": "2019-02-19",
  "created": 1686089970,
  "data": {"object": {"id": "seti_1NG8Du2eZvKYlo2C9XMqbR0x", "object": "setup_intent", "pending_webhooks": 7, "status": "%s"}},
  "livemode": false,
  "pending_webhooks": %d,
  "request": {"id": null, "idempotency_key": null},
  "type": "setup_intent.created"
}`
	onEach(t, func(t *testing.T, w *world) {
		post := func(status string, pending int) *httptest.ResponseRecorder {
			at, body := fmt.Sprint(time.Now().Unix()), fmt.Sprintf(event, status, pending)
			return w.post("stripe", body, "Stripe-Signature", "t="+at+",v1="+sign(at+"."+body), "Content-Type", "application/json; charset=utf-8")
		}
		if first := post("active", 2); first.Code != http.StatusAccepted {
			t.Fatalf("%d %s", first.Code, first.Body)
		}
		for _, again := range []struct {
			status   string
			pending  int
			conflict bool
		}{{"active", 2, false}, {"active", 1, false}, {"succeeded", 1, true}} {
			got := post(again.status, again.pending)
			if got.Code != http.StatusOK || strings.Contains(got.Body.String(), `"conflict":true`) != again.conflict {
				t.Errorf("%+v: %d %s", again, got.Code, got.Body)
			}
		}
		if rows := w.rows(t); len(rows) != 1 || rows[0].Duplicates != 3 || rows[0].Conflicts != 1 {
			t.Errorf("rows: %+v", rows)
		}
	})
}

// TestTheSendersHandshake: before it sends, a sender of CloudEvents asks whether its events are wanted.
func TestTheSendersHandshake(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ask := func(source, origin string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodOptions, "/webhooks/"+w.slug+"/"+source, nil)
			r.Header.Set("WebHook-Request-Origin", origin)
			r.Header.Set("WebHook-Request-Rate", "120")
			answer := httptest.NewRecorder()
			w.ServeHTTP(answer, r)
			return answer
		}
		yes := ask("token", "eventgrid.azure.net")
		if h := yes.Header(); yes.Code != http.StatusOK || h.Get("WebHook-Allowed-Origin") != "*" || h.Get("WebHook-Allowed-Rate") != "6000" ||
			h.Get("Allow") != "POST" || yes.Body.Len() != 0 {
			t.Errorf("%d %v %s", yes.Code, h, yes.Body)
		}
		for name, no := range map[string]*httptest.ResponseRecorder{
			"no source": ask("gitlab", "eventgrid.azure.net"), "no origin": ask("token", ""),
		} {
			if h := no.Header(); no.Code < 400 || h.Get("WebHook-Allowed-Origin") != "" || h.Get("WebHook-Allowed-Rate") != "" {
				t.Errorf("%s: %d %v", name, no.Code, h)
			}
		}
		if n := len(w.rows(t)); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestEachKindIsTaken with its own signature.
func TestEachKindIsTaken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		at := fmt.Sprint(time.Now().Unix())
		const body = `{"id":"e1","type":"invoice.paid"}`
		for name, headers := range map[string][]string{
			"stripe": {"Stripe-Signature", "t=" + at + ",v1=" + sign(at+"."+body)},
			"slack":  {"X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0=" + sign("v0:"+at+":"+body)},
			"hmac":   {"X-Signature", sign(body)},
			"token":  {"Authorization", "Bearer " + sent},
		} {
			if got := w.post(name, body, headers...); got.Code != http.StatusAccepted {
				t.Errorf("%s: %d %s", name, got.Code, got.Body)
			}
		}
		if n := len(w.rows(t)); n != 4 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestAWrongSignatureLeavesOneCounter and no row; it answers 401, and repeats nothing.
func TestAWrongSignatureLeavesOneCounter(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, headers := range [][]string{{}, {"X-Hub-Signature-256", "sha256=" + sign("other")}, {"X-Hub-Signature-256", "CANARY"}} {
			got := w.post("github", `{"a":"CANARY"}`, headers...)
			if got.Code != http.StatusUnauthorized || strings.Contains(got.Body.String(), "CANARY") || got.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%v: %d %s", headers, got.Code, got.Body)
			}
		}
		if n := len(w.rows(t)); n != 0 || w.rejected(t, "github") != 3 || w.rejected(t, "token") != 0 || w.kicked != 0 {
			t.Errorf("%d rows, %d rejected, %d kicks", n, w.rejected(t, "github"), w.kicked)
		}
	})
}

// TestBadRequests are answered with a clear problem, and leave no row.
func TestBadRequests(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		good := func(body string) []string {
			return []string{"Authorization", "Bearer " + sent, "Content-Type", "application/json"}
		}
		large, deep := strings.Repeat("x", inbox.MaxBody+1), strings.Repeat("[", 100)
		many := "[" + strings.Repeat("0,", 250_000) + "0]"
		for name, c := range map[string]struct {
			got    *httptest.ResponseRecorder
			status int
			code   string
		}{
			"too large":         {w.post("token", large, good(large)...), 413, "too_large"},
			"no JSON":           {w.post("token", "{", good("{")...), 400, "bad_body"},
			"too deep":          {w.post("token", deep, good(deep)...), 400, "bad_body"},
			"too many values":   {w.post("token", many, good(many)...), 400, "bad_body"},
			"no text":           {w.post("token", "\xff", "Authorization", "Bearer "+sent), 415, "unsupported_body"},
			"encoded":           {w.post("token", "x", append(good("x"), "Content-Encoding", "gzip")...), 415, "encoded"},
			"no source":         {w.post("gitlab", "{}"), 404, "not_found"},
			"a path below":      {w.post("token/x", "{}"), 404, "not_found"},
			"no source at all":  {w.post("", "{}"), 404, "not_found"},
			"another workspace": {w.post("../other/token", "{}"), 404, "not_found"},
		} {
			var p struct{ Type, Title, Detail, Code, TraceID string }
			if err := json.Unmarshal(c.got.Body.Bytes(), &p); err != nil || c.got.Code != c.status || p.Code != c.code || p.Detail == "" || p.TraceID == "" {
				t.Errorf("%s: %d %s", name, c.got.Code, c.got.Body)
			}
		}
		r := httptest.NewRequest(http.MethodGet, "/webhooks/"+w.slug+"/token", nil)
		answer := httptest.NewRecorder()
		if w.ServeHTTP(answer, r); answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != "POST" {
			t.Errorf("GET: %d %s", answer.Code, answer.Body)
		}
		if n := len(w.rows(t)); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestADeliveryHasOneID: a request with several ids is refused, because each id would name another
// delivery.
func TestADeliveryHasOneID(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.add(t, inbox.Source{Name: "keyed", Kind: inbox.HMAC, IDPath: "headers.idempotency-key"}, sent)
		for source, c := range map[string]struct{ signed, signature, id string }{
			"github": {"X-Hub-Signature-256", "sha256=" + sign("{}"), "X-Github-Delivery"},
			"keyed":  {"X-Signature", sign("{}"), "Idempotency-Key"},
		} {
			for _, second := range []string{"e2", "e1", ""} {
				r := httptest.NewRequest(http.MethodPost, "/webhooks/"+w.slug+"/"+source, strings.NewReader("{}"))
				r.Header.Set(c.signed, c.signature)
				r.Header[c.id] = []string{"e1", second}
				answer := httptest.NewRecorder()
				w.ServeHTTP(answer, r)
				if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), `"location":"header.`+c.id+`"`) {
					t.Errorf("%s with the ids e1 and %q: %d %s", source, second, answer.Code, answer.Body)
				}
			}
			if got := w.post(source, "{}", c.signed, c.signature, c.id, "e1"); got.Code != http.StatusAccepted {
				t.Errorf("%s with one id: %d %s", source, got.Code, got.Body)
			}
		}
	})
}

// TestALargeBody is stored to the byte, up to the largest event that Lambda takes.
func TestALargeBody(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		body := `{"text":"` + strings.Repeat("é", (inbox.MaxBody-11)/2) + `"}`
		if got := w.post("token", body, "Authorization", "Bearer "+sent, "Content-Type", "application/json"); got.Code != http.StatusAccepted {
			t.Fatalf("%d bytes: %d %s", len(body), got.Code, got.Body)
		}
		rows := w.rows(t)
		if len(rows) != 1 {
			t.Fatalf("%d rows", len(rows))
		}
		stored, err := w.Inbox.Delivery(t.Context(), w.Workspace, rows[0].ID)
		if err != nil || string(stored.Body) != body {
			t.Errorf("stored are %d bytes of %d: %v", len(stored.Body), len(body), err)
		}
	})
}

// TestSlacksChallenge is given back where it is signed, and is no delivery.
func TestSlacksChallenge(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		at := fmt.Sprint(time.Now().Unix())
		const body = `{"type":"url_verification","challenge":"3eZbrw1aBm2r"}`
		got := w.post("slack", body, "X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+sign("v0:"+at+":"+body), "Content-Type", "application/json")
		if got.Code != http.StatusOK || got.Body.String() != "3eZbrw1aBm2r" || len(w.rows(t)) != 0 {
			t.Errorf("%d %s, %d rows", got.Code, got.Body, len(w.rows(t)))
		}
		if unsigned := w.post("slack", body); unsigned.Code != http.StatusUnauthorized {
			t.Errorf("unsigned: %d %s", unsigned.Code, unsigned.Body)
		}
	})
}

// TestSlacksForms get an empty answer: where a person waits, such as behind a modal, Slack takes any other for an error.
func TestSlacksForms(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		at := fmt.Sprint(time.Now().Unix())
		for n, body := range []string{"command=%2Fdeploy&text=now&trigger_id=1.1", "payload=%7B%22type%22%3A%22view_submission%22%2C%22trigger_id%22%3A%222.2%22%7D"} {
			for range 2 { // the second time it is a duplicate
				got := w.post("slack", body, "X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+sign("v0:"+at+":"+body),
					"Content-Type", "application/x-www-form-urlencoded")
				if got.Code != http.StatusOK || got.Body.Len() != 0 || len(w.rows(t)) != n+1 {
					t.Errorf("%s: %d %q, %d rows", body, got.Code, got.Body, len(w.rows(t)))
				}
			}
		}
		const event = `{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"}}`
		got := w.post("slack", event, "X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+sign("v0:"+at+":"+event), "Content-Type", "application/json")
		if got.Code != http.StatusAccepted {
			t.Errorf("an event: %d %s", got.Code, got.Body)
		}
	})
}

// TestAWindowOfTheDatabase: what counts is the database's clock.
func TestAWindowOfTheDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		at := fmt.Sprint(time.Now().Unix())
		send := func() int {
			return w.post("stripe", `{"id":"e1"}`, "Stripe-Signature", "t="+at+",v1="+sign(at+`.{"id":"e1"}`)).Code
		}
		if got := send(); got != http.StatusAccepted {
			t.Errorf("now: %d", got)
		}
		w.Skew.Advance(6 * time.Minute)
		if got := send(); got != http.StatusUnauthorized {
			t.Errorf("six minutes later: %d", got)
		}
	})
}

// TestFloodsAreLimited: bad signatures by address, without keeping out good ones.
func TestFloodsAreLimited(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	w.Failures = ratelimit.NewFailures(ratelimit.Limit{PerSecond: 0.01, Burst: 3}, time.Now)
	var statuses []int
	for range 6 {
		statuses = append(statuses, w.post("github", "{}").Code)
	}
	if fmt.Sprint(statuses) != "[401 401 401 429 429 429]" || w.rejected(t, "github") != 3 {
		t.Errorf("answered %v, %d counted", statuses, w.rejected(t, "github"))
	}
	if got := w.issue("d1", "{}"); got.Code != http.StatusAccepted {
		t.Errorf("a good one: %d", got.Code)
	}
}

// TestAddressesThatNoSourceCanHave are answered and counted as those of no source, and are no fault of
// the service.
func TestAddressesThatNoSourceCanHave(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	var log strings.Builder
	w.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.Failures = ratelimit.NewFailures(ratelimit.Limit{PerSecond: 0.01, Burst: 6}, time.Now)
	for _, path := range []string{"default/%00", "%00/token", w.slug + "/%ff", "%ff/token", w.slug + "/Token", w.slug + "/" + strings.Repeat("a", 5000)} {
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/webhooks/"+path, strings.NewReader("{}")))
		if answer.Code != http.StatusNotFound {
			t.Errorf("%.40s: %d %s", path, answer.Code, answer.Body)
		}
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
	if got := w.post("gitlab", "{}"); got.Code != http.StatusTooManyRequests {
		t.Errorf("after six of them: %d", got.Code)
	}
}

// TestDuplicatesAndShuffles (R9 at test size): 300 deliveries, a third of them again, by ten senders
// at once.
func TestDuplicatesAndShuffles(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Limits = nil
		const unique, all, senders = 60, 90, 6
		var wg sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		for s := range senders {
			wg.Go(func() {
				for n := s; n < all; n += senders {
					got := w.issue(fmt.Sprint("d", n*7%unique), `{"action":"opened"}`)
					mu.Lock()
					statuses[got.Code]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if n := len(w.rows(t)); n != unique || statuses[202] != unique || statuses[200] != all-unique {
			t.Errorf("%d rows, answered %v", n, statuses)
		}
	})
}

// cut is a body that breaks off.
type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestACutBetweenReceiptAndAnswer (R10): whoever leaves before the answer finds the row stored or
// not, and never an answer of 2xx without a row.
func TestACutBetweenReceiptAndAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/"+w.slug+"/token", cut{})
		answer := httptest.NewRecorder()
		if w.ServeHTTP(answer, r); answer.Code != http.StatusBadRequest {
			t.Errorf("a body that breaks off: %d", answer.Code)
		}
		answered := 0
		for n := range 60 {
			ctx, cancel := context.WithCancel(t.Context())
			body := fmt.Sprintf(`{"n":%d}`, n)
			r := httptest.NewRequest(http.MethodPost, "/webhooks/"+w.slug+"/token", strings.NewReader(body)).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer "+sent)
			answer := httptest.NewRecorder()
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.ServeHTTP(answer, r)
			}()
			time.AfterFunc(time.Duration(n)*50*time.Microsecond, cancel)
			<-done
			cancel()
			if answer.Code < 300 {
				answered++
				var got struct{ ID string }
				if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Inbox.Delivery(t.Context(), w.Workspace, got.ID); err != nil {
					t.Errorf("answered %d, and there is no row: %v", answer.Code, err)
				}
			}
		}
		if rows := len(w.rows(t)); rows < answered {
			t.Errorf("%d rows, %d answered", rows, answered)
		}
	})
}

// TestNamesOfHeadersHaveNoCase, a header that comes twice is refused, and so is a huge one; and nothing
// of a request is taken for another's.
func TestNamesOfHeadersHaveNoCase(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	server := httptest.NewServer(w)
	defer server.Close()
	at, body := fmt.Sprint(time.Now().Unix()), `{"id":"e1"}`
	raw := func(headers ...string) int {
		t.Helper()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the answer was read
		fmt.Fprintf(conn, "POST /webhooks/%s/slack HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n\r\n%s", w.slug, len(body), strings.Join(headers, "\r\n"), body)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	stamp, signature := "x-slack-request-timestamp: "+at, "v0="+sign("v0:"+at+":"+body)
	for _, c := range []struct {
		want    int
		headers [][]string
	}{
		{202, [][]string{{stamp, "X-SLACK-SIGNATURE: " + signature}}},
		{200, [][]string{
			{stamp, "X-SLACK-SIGNATURE: " + signature}, {strings.ToUpper(stamp), "x-slack-signature:" + signature},
		}},
		{401, [][]string{
			{stamp, "X-Slack-Signature: " + signature, "x-slack-signature: " + signature}, {stamp, "X-Slack-Signature: " + signature, "X-Slack-Signature: v0=00"},
			{stamp, stamp, "X-Slack-Signature: " + signature}, {stamp, "X-Slack-Signature: " + signature + "," + signature},
			{stamp, "X-Slack-Signature: V0=" + signature[3:]}, {stamp, "X-Slack_Signature: " + signature}, {stamp, "X-Slack-Signature: " + strings.Repeat(signature, 5000)},
		}},
		{431, [][]string{{stamp, "X-Slack-Signature: " + signature, "X-Huge: " + strings.Repeat("x", 2<<20)}}},
	} {
		for _, h := range c.headers {
			if got := raw(h...); got != c.want {
				t.Errorf("%.200q: %d, not %d", h, got, c.want)
			}
		}
	}
}

// TestASlowBodyHoldsUpNobodyButItself: it is cut off in its time, and leaves no row.
func TestASlowBodyHoldsUpNobodyButItself(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	ctx, cancel := context.WithCancel(t.Context())
	slow, feed := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = feed.CloseWithError(context.Canceled) })
	defer stop()
	r := httptest.NewRequest(http.MethodPost, "/webhooks/"+w.slug+"/token", slow).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer "+sent)
	answer, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		defer slow.CloseWithError(io.ErrClosedPipe) // an answer that reads no body ends the sender too
		w.ServeHTTP(answer, r)
	}()
	if _, err := feed.Write([]byte(`{"a":`)); err != nil {
		t.Fatal(err)
	}
	if got := w.issue("d1", "{}"); got.Code != http.StatusAccepted {
		t.Errorf("another one, meanwhile: %d", got.Code)
	}
	cancel()
	<-done
	if answer.Code != http.StatusBadRequest || len(w.rows(t)) != 1 {
		t.Errorf("%d, %d rows", answer.Code, len(w.rows(t)))
	}
}

// TestABodyThatTrickles is cut off in time to answer, and leaves no row.
func TestABodyThatTrickles(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	server := httptest.NewServer(w)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the answer was read
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /webhooks/%s/token HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", w.slug, sent)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusRequestTimeout || len(w.rows(t)) != 0 {
		t.Errorf("%d, %d rows", answer.StatusCode, len(w.rows(t)))
	}
}

// deadlines notes until when a body may arrive.
type deadlines struct {
	*httptest.ResponseRecorder
	at time.Time
}

// SetReadDeadline is for [http.ResponseController].
func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.at = at
	return nil
}

// TestABodyHasADeadlineAlsoWhereNobodyReadsIt: net/http reads the rest of a body before it sends a refusal.
func TestABodyHasADeadlineAlsoWhereNobodyReadsIt(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	for _, c := range []struct {
		method, path, encoding string
		status                 int
	}{
		{http.MethodPut, "/webhooks/" + w.slug + "/github", "", 405}, {http.MethodPost, "/webhooks/nope", "", 404},
		{http.MethodPost, "/webhooks/" + w.slug + "/github", "gzip", 415},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader("{}"))
		r.Header.Set("Content-Encoding", c.encoding)
		answer := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		w.ServeHTTP(answer, r)
		if left := time.Until(answer.at); answer.Code != c.status || left <= 0 || left > 10*time.Second {
			t.Errorf("%s %s: %d, and the body may arrive for %s", c.method, c.path, answer.Code, left)
		}
	}
}

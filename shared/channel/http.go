package channel

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// HTTP posts messages to URLs, signed according to Standard Webhooks. A receiver that remembers the
// webhook-id processes a message once. All fields are required.
type HTTP struct {
	Client Client
	// Secret is the signing key: whsec_ and the key in base64, or any other text, which is then the
	// key itself.
	Secret Secret
	Clock  func() time.Time
}

// posted is the body of a request.
type posted struct {
	ID       string            `json:"id"`
	ThreadID string            `json:"threadId"`
	Body     string            `json:"body"`
	Metadata map[string]string `json:"metadata"`
}

const (
	maxPosted = 2 << 20  // bytes
	maxAnswer = 64 << 10 // bytes of an answer that are read
	// answerTime limits how long the answer's body is read.
	answerTime = time.Second
)

// Name is "http".
func (*HTTP) Name() string { return NameHTTP }

// Send posts a message. Any 2xx answer accepts it.
func (h *HTTP) Send(ctx context.Context, m Message) error {
	if err := Sendable(NameHTTP, m); err != nil {
		return err
	}
	id := webhookID(m.Key)
	metadata := m.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	body, err := json.Marshal(posted{id, m.Thread, m.Body, metadata})
	if err != nil || len(body) > maxPosted {
		return outbox.Permanently(errors.New("the message and its metadata are larger than 2 MiB"))
	}
	key, err := h.key(ctx, m.Workspace)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Address, bytes.NewReader(body))
	if err != nil { // the error's text contains the URL
		return outbox.Permanently(errors.New("the address is no URL"))
	}
	at := strconv.FormatInt(h.Clock().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Lanekeeper")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", sign(key, id, at, body))
	resp, err := h.Client.DoOnce(req)
	if err != nil {
		return unanswered(err, false) // a retry uses the same id
	}
	defer resp.Body.Close()
	// Without reading the body, the connection is reset and can't be reused. But don't wait long
	// for it.
	enough := time.AfterFunc(answerTime, func() { _ = resp.Body.Close() })
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	enough.Stop()
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		return nil
	case resp.StatusCode == http.StatusGone:
		return outbox.Gone(&AnswerError{Status: http.StatusGone})
	}
	return refused(resp, true)
}

const signing = "the secret that signs messages"

func (h *HTTP) key(ctx context.Context, ws db.Workspace) ([]byte, error) {
	text, err := h.Secret.reveal(ctx, ws, signing)
	if err != nil {
		return nil, err
	}
	encoded, ok := strings.CutPrefix(text, "whsec_")
	if !ok {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 {
		return nil, outbox.Permanently(fmt.Errorf("%s: it must have base64 behind whsec_", signing))
	}
	return key, nil
}

// sign returns the signature of Standard Webhooks, version 1.
func sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

var plainID = pattern.New(`^[A-Za-z0-9_:/-]{1,200}$`)

// webhookID returns the key if it is valid in a header and has no dot, which would make the signed
// text ambiguous. Otherwise it returns a hash of the key.
func webhookID(key string) string {
	if plainID().MatchString(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "msg_" + hex.EncodeToString(sum[:16])
}

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
	Sign(req.Header, [][]byte{key}, id, h.Clock(), body)
	resp, err := h.Client.DoOnce(req)
	if err != nil {
		return unanswered(err, false) // a retry uses the same id
	}
	defer resp.Body.Close()
	_ = ReadAnswer(resp)
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

// ReadAnswer reads the beginning of an answer's body, of 64 KiB at most and for a second at most.
// Without that, the connection is reset and can't be reused. The caller closes the body.
func ReadAnswer(resp *http.Response) []byte {
	enough := time.AfterFunc(answerTime, func() { _ = resp.Body.Close() })
	defer enough.Stop()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return raw
}

// Sign sets the headers of a request that is signed by the scheme of Standard Webhooks, version 1: one
// signature for each key.
func Sign(h http.Header, keys [][]byte, id string, now time.Time, body []byte) {
	at := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "Lanekeeper")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
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

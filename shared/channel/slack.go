package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Slack posts messages to channels and threads of a Slack workspace as a bot, and to the channels of
// incoming webhooks, whose addresses are webhook:NAME. All fields are required.
type Slack struct {
	Client Client
	Token  Secret // xoxb-…, with the scope chat:write
	// Webhook returns the secret that has the URL of an incoming webhook. Who knows that URL may post.
	Webhook func(name string) Secret
}

const (
	postMessage = "https://slack.com/api/chat.postMessage"
	maxSlackSay = 2 << 20 // bytes of an answer, which repeats the text
)

// slackPost is the body of chat.postMessage.
type slackPost struct {
	Channel  string `json:"channel"`
	ThreadTS string `json:"thread_ts,omitempty"`
	Text     string `json:"text"`
	// Slack ignores a message whose id it has seen recently, but does not guarantee it.
	ClientMsgID string `json:"client_msg_id"`
	// A preview fetches the linked page. Injected text could leak data by such a link.
	UnfurlLinks bool `json:"unfurl_links"`
	UnfurlMedia bool `json:"unfurl_media"`
}

// markup escapes a text. It prevents mentions of everybody, and links that show another address.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Name is "slack".
func (*Slack) Name() string { return NameSlack }

// Unkeyed reports that an interrupted attempt must not be repeated.
func (*Slack) Unkeyed() bool { return true }

// Send posts a message.
func (s *Slack) Send(ctx context.Context, m Message) error {
	if err := Sendable(NameSlack, m); err != nil {
		return err
	}
	if name, ok := strings.CutPrefix(m.Address, webhookPrefix); ok {
		return s.hook(ctx, name, m)
	}
	token, err := s.Token.reveal(ctx, m.Workspace, "the token for Slack")
	if err != nil {
		return err
	}
	id, thread, _ := strings.Cut(m.Address, ":")
	body, err := json.Marshal(slackPost{
		Channel: id, ThreadTS: thread, Text: markup.Replace(m.Body),
		ClientMsgID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(m.Key)).String(),
	})
	if err != nil {
		return fmt.Errorf("post to Slack: %w", err)
	}
	return s.post(ctx, postMessage, "Bearer "+token, body, slackSaid)
}

// post sends a request. said reads an answer of status 200.
func (s *Slack) post(ctx context.Context, to, authorization string, body []byte, said func(io.Reader) error) error {
	ctx, left := Watch(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return outbox.Permanently(errors.New("post to Slack: its URL can't be read")) // the error repeats the URL
	}
	// A kept connection may be dead: then a request leaves and brings no answer.
	req.Close = true
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "Lanekeeper")
	resp, err := s.Client.DoOnce(req)
	if err != nil {
		return unanswered(err, left())
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refused(resp, false)
	}
	return said(resp.Body)
}

const (
	webhookPrefix = "webhook:"
	webhookURL    = "https://hooks.slack.com/"
)

// hook posts to an incoming webhook, which answers 200 for what it has taken.
func (s *Slack) hook(ctx context.Context, name string, m Message) error {
	to, err := s.Webhook(name).reveal(ctx, m.Workspace, "the URL of an incoming webhook of Slack")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(to, webhookURL) {
		return outbox.Permanently(fmt.Errorf("the secret %s is no URL of an incoming webhook of Slack: it begins with %s", name, webhookURL))
	}
	body, err := json.Marshal(struct {
		Text        string `json:"text"`
		UnfurlLinks bool   `json:"unfurl_links"`
		UnfurlMedia bool   `json:"unfurl_media"`
	}{Text: markup.Replace(m.Body)})
	if err != nil {
		return fmt.Errorf("post to Slack: %w", err)
	}
	return s.post(ctx, to, "", body, func(io.Reader) error { return nil })
}

// slackSaid reads Slack's answer of status 200.
func slackSaid(body io.Reader) error {
	var said struct {
		OK    *bool  `json:"ok"`
		Error string `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxSlackSay)).Decode(&said); err != nil || said.OK == nil {
		return outbox.Uncertainly(errors.New("the request was sent, and Slack's answer could not be read"))
	}
	if *said.OK {
		return nil
	}
	code := said.Error
	if !slackCode().MatchString(code) {
		code = "unknown"
	}
	err := fmt.Errorf("Slack refused the message (%s)", code) //nolint:staticcheck // a name
	switch code {
	case "ratelimited", "rate_limited", "service_unavailable", "request_timeout", "team_added_to_org":
		return err
	case "internal_error", "fatal_error": // "it's possible some aspect of the operation succeeded"
		return outbox.Uncertainly(err)
	}
	return outbox.Permanently(err)
}

var slackCode = pattern.New(`^[a-z0-9_]{1,80}$`)

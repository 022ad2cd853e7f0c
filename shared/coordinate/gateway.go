package coordinate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// Gateway starts agents over HTTP. It is the spawner http.
type Gateway struct {
	Client *outbound.Client // it refuses private addresses that nobody has allowed
	URL    string           // the default; an agent's spawnerTarget replaces it
	Token  string           // sent as a bearer token to the default only; may be empty
}

// spawnPath is where a gateway starts agents.
const spawnPath = "/api/agents/spawn"

// maxSession bounds what is read of an answer, in bytes.
const maxSession = 64 << 10

type spawnBody struct {
	WorkspaceID    string       `json:"workspaceId"`
	AgentID        string       `json:"agentId"`
	TaskID         string       `json:"taskId"`
	Attempt        int          `json:"attempt"`
	IdempotencyKey string       `json:"idempotencyKey,omitempty"`
	Model          string       `json:"model,omitempty"`
	Label          string       `json:"label"`
	Context        spawnContext `json:"context"`
}

type spawnContext struct {
	TaskTitle       string          `json:"taskTitle"`
	TaskDescription string          `json:"taskDescription"`
	InputContext    json.RawMessage `json:"inputContext"`
	CheckpointData  json.RawMessage `json:"checkpointData"`
}

// Body is the JSON that tells an agent of its task. The key travels beside it, as a header.
func (s Start) Body() ([]byte, error) { return s.encode("") }

// Event is the JSON for a spawner that has no headers: the body, with the key.
func (s Start) Event() ([]byte, error) { return s.encode(s.Key) }

func (s Start) encode(key string) ([]byte, error) {
	raw, err := json.Marshal(spawnBody{
		WorkspaceID: string(s.Workspace), AgentID: s.Agent, TaskID: s.Task, Attempt: s.Attempt, IdempotencyKey: key, Model: s.Model,
		Label: s.Label(), Context: spawnContext{s.Title, s.Description, s.Input, s.Checkpoint},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the start of an agent: %w", err)
	}
	return raw, nil
}

// Spawn implements [Spawner]. The key travels in the header Idempotency-Key.
func (g *Gateway) Spawn(ctx context.Context, s Start) (string, error) {
	base := s.Target
	if base == "" {
		base = g.URL
	}
	if base == "" {
		return "", outbox.Permanently(errors.New("there is no gateway: set GATEWAY_URL, or the agent's spawnerTarget"))
	}
	body, err := s.Body()
	if err != nil {
		return "", outbox.Permanently(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+spawnPath, bytes.NewReader(body))
	if err != nil {
		return "", outbox.Permanently(errors.New("the gateway's address is not a URL"))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", s.Key)
	if g.Token != "" && s.Target == "" {
		req.Header.Set("Authorization", "Bearer "+g.Token)
	}
	resp, err := g.Client.DoOnce(req)
	if err != nil {
		if errors.Is(err, outbound.ErrBlocked) {
			return "", outbox.Permanently(err)
		}
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxSession))
	switch {
	case resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices:
		var answer struct {
			Session struct {
				Key string `json:"sessionKey"`
			} `json:"session"`
		}
		if err != nil || json.Unmarshal(raw, &answer) != nil || answer.Session.Key == "" {
			return "", errors.New("the gateway's answer has no session.sessionKey")
		}
		return answer.Session.Key, nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode >= http.StatusInternalServerError:
		return "", &gatewayError{resp.StatusCode, retryAfter(resp.Header)}
	}
	return "", outbox.Permanently(&gatewayError{status: resp.StatusCode})
}

// gatewayError is an answer of a gateway that did not start an agent.
type gatewayError struct {
	status int
	after  time.Duration
}

func (e *gatewayError) Error() string { return fmt.Sprintf("the gateway answered %d", e.status) }

// RetryAfter implements [outbox.Delayed].
func (e *gatewayError) RetryAfter() time.Duration { return e.after }

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

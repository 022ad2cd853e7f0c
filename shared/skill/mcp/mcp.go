// Package mcp carries out skills of kind mcp. A call invokes a tool of a Model Context Protocol
// server over streamable HTTP. Each call opens its own session and closes it afterwards. This costs
// three or four round trips instead of one, but leaves no session that a frozen process would have
// to find again.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/schema"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
)

// Outbound holds what the kind needs to send requests.
type Outbound struct {
	// Client is the guarded client. That of package outbound follows the redirects that are safe, each of them
	// checked: a message goes on within its origin only. A redirect that the client returns is not followed.
	Client *http.Client
	// Check refuses a URL that may not be called. It does not use the network.
	Check func(rawURL string) error
	// Blocked reports whether an error of the client is the guard's refusal.
	Blocked func(error) bool
	Expand  remote.Expand
	// Patience returns a context whose requests may take the given time, whatever the client's own
	// limit is. It may be nil: then the client's limit applies.
	Patience func(context.Context, time.Duration) context.Context
}

// tool is one tool of a server.
type tool struct {
	out     Outbound
	url     string
	name    string
	headers remote.Headers
}

const (
	maxURL  = 8 << 10
	maxName = 255
)

// reserved lists the headers that the protocol sets.
var reserved = []string{"Accept", "Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-Id"}

// Kind returns the factory of skills of kind mcp.
func Kind(out Outbound) skill.Factory {
	return func(d skill.Definition) (skill.Skill, error) {
		var c struct {
			URL     string                     `json:"url"`
			Tool    string                     `json:"tool"`
			Headers map[string]json.RawMessage `json:"headers"`
		}
		if err := skill.DecodeConfig(d.Config, &c, "url", "tool", "headers"); err != nil {
			return skill.Skill{}, err
		}
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || len(c.URL) > maxURL ||
			u.User != nil || u.Fragment != "" || strings.Contains(c.URL, skill.Redacted) {
			return skill.Skill{}, skill.Invalid("config.url", "must be a URL of https or http that does not log in, in clear and without a fragment")
		}
		if err := out.Check(c.URL); err != nil {
			return skill.Skill{}, skill.Invalid("config.url", "lies where nothing may be called; ALLOW_PRIVATE_HOSTS opens a host of your own")
		}
		if c.Tool == "" || len(c.Tool) > maxName {
			return skill.Skill{}, skill.Invalid("config.tool", "must have 1 to 255 bytes")
		}
		headers, err := remote.ParseHeaders(c.Headers, reserved...)
		if err != nil {
			return skill.Skill{}, err
		}
		t := &tool{out, c.URL, c.Tool, headers}
		return skill.Skill{Do: t.do}, nil
	}
}

// do makes one call.
func (t *tool) do(ctx context.Context, c skill.Call) (any, error) {
	headers, secrets, err := t.headers.Resolve(ctx, c.Workspace, t.out.Expand)
	if err != nil {
		return nil, err
	}
	ctx = remote.Patient(ctx, t.out.Patience)
	session := newSession(t.out.Client, t.url, headers)
	defer session.close(ctx)
	if err := session.open(ctx); err != nil {
		return nil, t.notOpened(ctx, session.sight, secrets, err)
	}
	var result struct {
		Content           []content       `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
	}
	err = session.call(ctx, "tools/call", map[string]any{"name": t.name, "arguments": c.Arguments, "_meta": map[string]any{"lanekeeper/key": c.Key}}, &result)
	if err != nil {
		seen := session.sight
		if ctx.Err() != nil {
			session.cancelled(ctx)
		}
		return nil, t.failed(seen, secrets, err)
	}
	text := secrets.Redact(words(result.Content))
	if result.IsError { // the protocol does not say who is responsible; treat it as the call's
		return nil, skill.Fail(skill.Input, "the tool failed. It said: %s", strconv.Quote(remote.Clip(text)))
	}
	if len(result.StructuredContent) > 0 {
		if v, err := schema.Decode(result.StructuredContent); err == nil && v != nil {
			return secrets.RedactValue(v), nil
		}
	}
	return map[string]any{"text": text}, nil
}

// content is one piece of a tool's result.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"` // in base64, of whatever alphabet and padding
	URI      string `json:"uri"`
	Resource struct {
		Text string `json:"text"`
	} `json:"resource"`
}

// size is about how many bytes the data has.
func (c content) size() int { return len(strings.TrimRight(c.Data, "=")) * 3 / 4 }

// words joins the texts of a tool's result. Content that is not text is described instead.
func words(pieces []content) string {
	var all []string
	for _, c := range pieces {
		switch c.Type {
		case "text":
			all = append(all, c.Text)
		case "image":
			all = append(all, fmt.Sprintf("(an image, %d bytes)", c.size()))
		case "audio":
			all = append(all, fmt.Sprintf("(a sound, %d bytes)", c.size()))
		case "resource_link":
			all = append(all, "(a link: "+c.URI+")")
		case "resource":
			all = append(all, cmp.Or(c.Resource.Text, "(a resource)"))
		}
	}
	return strings.ToValidUTF8(strings.Join(all, "\n"), "\uFFFD")
}

// notOpened returns the error of a call whose session could not be opened. The tool was not called.
func (t *tool) notOpened(ctx context.Context, seen sight, secrets remote.Secrets, err error) error {
	switch {
	case seen.err != nil:
		return secrets.Failure(seen.err, t.out.Blocked, false)
	case seen.isRefused():
		return remote.Refused(seen.status, "", seen.header, false)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", skill.Fail(skill.Theirs, "the server could not be reached in time"), ctx.Err())
	}
	return fmt.Errorf("%w: %w", skill.Fail(skill.Theirs, "the server opened no session"), errors.New(secrets.Redact(err.Error())))
}

// failed returns the error of a call that returned no result.
func (t *tool) failed(seen sight, secrets remote.Secrets, err error) error {
	told, isTold := errors.AsType[*rpcError](err)
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	answered := isTold && (seen.status == http.StatusBadRequest || seen.status != 0 && !seen.isRefused())
	switch {
	case tooLong:
		return skill.Fail(skill.Theirs, "the tool's answer is longer than 1 MiB: it was not read")
	case seen.err != nil:
		return secrets.Failure(seen.err, t.out.Blocked, seen.mayHaveLeft())
	case answered && told.Code == codeInvalidParams:
		return skill.Fail(skill.Input, "the server refused the call. It said: %s", strconv.Quote(remote.Clip(secrets.Redact(told.Message))))
	case answered && told.Code == codeMethodNotFound:
		return skill.Fail(skill.Ours, "the server has no tools")
	case seen.isRefused():
		return remote.Refused(seen.status, "", seen.header, true)
	case answered:
		return skill.Fail(skill.Theirs, "the server failed. It said: %s", strconv.Quote(remote.Clip(secrets.Redact(told.Message))))
	}
	return secrets.Failure(err, t.out.Blocked, seen.mayHaveLeft())
}

package endpoint

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// ChallengeEvent is the event of [Deliverer.Challenge].
const ChallengeEvent = "webhook.challenge"

// lookTime limits the lookup of a host at its registration.
const lookTime = 3 * time.Second

// Reachable checks that a URL may be called from here, with the addresses that its host has now. The
// error is a [problem.InvalidError] of url. A host that can't be looked up is not refused: the
// addresses are checked again with each request.
func (d *Deliverer) Reachable(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	blocked, is := errors.AsType[*outbound.BlockedError](d.Sender.Client.CheckDNS(ctx, url))
	switch {
	case is && blocked.Rule == outbound.RuleAddress:
		return problem.Invalid("url", "may not be called from here: it is not a public address; ALLOW_PRIVATE_HOSTS opens a host of your own")
	case is:
		return problem.Invalid("url", "may not be called from here: rule %s", blocked.Rule)
	}
	return nil
}

// Challenge sends a random text to an endpoint's URL, signed with a secret. The answer must be of
// status 2xx, and its body the text, or a JSON object with the text under "challenge". Whoever can't
// read the requests to a URL can't have it registered. The error is a [problem.InvalidError] of url.
func (d *Deliverer) Challenge(ctx context.Context, ws db.Workspace, e Endpoint, v secret.Value) error {
	key, err := keyOf(v)
	if err != nil {
		return err
	}
	id, _ := trace.From(ctx)
	text := rand.Text()
	h := Happened{
		Event: ChallengeEvent, Micros: d.Sender.Clock().UnixMicro(), Data: map[string]json.RawMessage{"challenge": json.RawMessage(`"` + text + `"`)},
	}
	body, err := h.body(ws, id)
	if err != nil {
		return err
	}
	got := d.Sender.post(ctx, e.URL, [][]byte{key}, "msg_"+d.Store.ids(), body)
	if got.err != nil {
		return problem.Invalid("url", "did not answer the ownership challenge: %s", got.err)
	}
	var told struct {
		Challenge string `json:"challenge"`
	}
	_ = json.Unmarshal(got.body, &told)
	if strings.TrimSpace(string(got.body)) != text && told.Challenge != text {
		return problem.Invalid("url", "did not answer the ownership challenge: it answered %d without the text of the field challenge", got.status)
	}
	return nil
}

// ChallengeAgain is Challenge with the present secret of a stored endpoint.
func (d *Deliverer) ChallengeAgain(ctx context.Context, ws db.Workspace, e Endpoint) error {
	v, err := d.Store.secrets.OpenAt(ctx, d.Store.pairs.At(ws, e.ID), e.sealed[0])
	if err != nil {
		return fmt.Errorf("open the secret of webhook endpoint %s: %w", e.ID, err)
	}
	return d.Challenge(ctx, ws, e, v)
}

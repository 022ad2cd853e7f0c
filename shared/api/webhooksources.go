package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// webhookRule maps deliveries to an action.
type webhookRule struct {
	Event string             `json:"event,omitempty" maxLength:"200" doc:"Such as issues.*, where * stands for any text; left out: every event"`
	When  []webhookCondition `json:"when,omitempty" maxItems:"20" nullable:"false" doc:"All of them must hold"`
	Then  webhookAction      `json:"then"`
}

type webhookCondition struct {
	Path  string          `json:"path" minLength:"1" maxLength:"200" doc:"Such as body.issue.number or headers.x-github-event"`
	Op    string          `json:"op" enum:"eq,ne,in,contains,exists,gt,lt,matches" doc:"matches takes a regular expression (RE2)"`
	Value json.RawMessage `json:"value,omitempty"`
}

// webhookAction has exactly one of skill, automation, task and message.
type webhookAction struct {
	Skill      string          `json:"skill,omitempty" maxLength:"64" doc:"The name of a skill"`
	Automation string          `json:"automation,omitempty" maxLength:"200" doc:"The name or the id of an automation"`
	Message    *webhookMessage `json:"message,omitempty" doc:"Text for a conversation, which the agent answers"`
	Task       givenJSON       `json:"task,omitempty" doc:"A task to create: an object with title, description, taskType, priority, tags, inputContext, metadata, dependsOn, projectId and milestoneId, whose texts may have templates"`
	With       givenJSON       `json:"with,omitempty" doc:"Arguments, with templates such as {{body.issue.title}}; of an automation or a task, those that replace its own"`
}

type webhookMessage struct {
	Thread struct {
		Channel string `json:"channel" minLength:"1" maxLength:"56"`
		Address string `json:"address" minLength:"1" maxLength:"1000" doc:"A template"`
	} `json:"thread"`
	Body string `json:"body" minLength:"1" maxLength:"16384" doc:"A template"`
}

// WebhookSourceItem is a source of webhooks, without its secret.
type WebhookSourceItem struct {
	ID            string          `json:"id" format:"uuid"`
	Name          string          `json:"name"`
	Kind          inbox.Kind      `json:"kind" enum:"github,stripe,slack,standard,hmac,token"`
	Path          string          `json:"path" doc:"Where its webhooks are sent to"`
	Header        string          `json:"header,omitempty"`
	Encoding      inbox.Encoding  `json:"encoding,omitempty" enum:"hex,base64"`
	Prefix        string          `json:"prefix,omitempty"`
	IDPath        string          `json:"idPath,omitempty"`
	Owner         string          `json:"owner,omitempty" doc:"github: of the repository whose missed webhooks are asked for"`
	Repo          string          `json:"repo,omitempty"`
	HookID        int64           `json:"hookId,omitempty"`
	Token         *secretName     `json:"token,omitempty" doc:"The name of the secret, never its value"`
	CatchUp       *webhookCatchUp `json:"catchUp,omitempty" doc:"How the search for missed webhooks goes"`
	Rules         json.RawMessage `json:"rules" doc:"The first that matches a delivery counts"`
	Enabled       bool            `json:"enabled"`
	Rejected      int64           `json:"rejected" doc:"Requests with a wrong signature"`
	RejectedAt    *time.Time      `json:"rejectedAt,omitempty" doc:"The last of them"`
	OldValidUntil *time.Time      `json:"oldSecretValidUntil,omitempty" doc:"Until when the secret before is valid too"`
	CreatedBy     string          `json:"createdBy"`
	CreatedAt     time.Time       `json:"createdAt"`
	UpdatedAt     time.Time       `json:"updatedAt"`
}

// secretName refers to a secret.
type secretName struct {
	Name string `json:"$secret" minLength:"1" maxLength:"64" doc:"The name of a secret of the workspace"`
}

// webhookCatchUp says how the search for missed webhooks goes.
type webhookCatchUp struct {
	At     *time.Time `json:"at,omitempty" doc:"When it last came to an end"`
	Asked  int        `json:"asked" doc:"Webhooks that GitHub was asked to send again, and that have not come yet"`
	Missed int        `json:"missed" doc:"Webhooks that did not come however often GitHub was asked, or were refused for their content"`
	Error  string     `json:"error,omitempty" doc:"Why it failed last"`
}

// catchUpOf is what a source tells of its search for missed webhooks.
func catchUpOf(n inbox.Source) *webhookCatchUp {
	if n.Hook == nil || n.Caught == nil {
		return nil
	}
	out := &webhookCatchUp{Asked: len(n.Caught.Asked), Missed: n.Caught.Missed, Error: n.Caught.Error}
	if at := n.Caught.At.UTC(); !at.IsZero() {
		out.At = &at
	}
	return out
}

// hookOf is the webhook of GitHub that these fields name; nil: none.
func hookOf(was *inbox.Hook, owner, repo *string, id *int64, token *secretName) *inbox.Hook {
	h := inbox.Hook{}
	db.Patch(&h, was)
	db.Patch(&h.Owner, owner)
	db.Patch(&h.Repo, repo)
	db.Patch(&h.ID, id)
	if token != nil {
		h.Token = token.Name
	}
	if h.Owner == "" && h.Repo == "" && h.ID == 0 && (token == nil || was != nil) {
		return nil
	}
	return &h
}

// madeWebhookSource is a new source. It includes the secret only if the server generated it.
type madeWebhookSource struct {
	WebhookSourceItem
	Secret string `json:"secret,omitempty" doc:"Shown once; left out where the caller gave it"`
}

func (s *server) webhookSourceItem(slug string, n inbox.Source) WebhookSourceItem {
	rules := json.RawMessage("[]")
	if len(n.Rules) > 0 {
		rules, _ = json.Marshal(n.Rules) // was JSON before
	}
	item := WebhookSourceItem{
		ID: n.ID, Name: n.Name, Kind: n.Kind, Path: "/webhooks/" + slug + "/" + n.Name,
		Header: n.Header, Encoding: n.Encoding, Prefix: n.Prefix, IDPath: n.IDPath, Rules: rules, Enabled: n.Enabled,
		Rejected: n.Rejected, RejectedAt: utc(n.RejectedAt), OldValidUntil: utc(n.OldUntil),
		CreatedBy: n.CreatedBy, CreatedAt: n.CreatedAt.UTC(), UpdatedAt: n.UpdatedAt.UTC(), CatchUp: catchUpOf(n),
	}
	if h := n.Hook; h != nil {
		item.Owner, item.Repo, item.HookID, item.Token = h.Owner, h.Repo, h.ID, &secretName{h.Token}
	}
	return item
}

// slug returns the slug of the caller's workspace.
func (s *server) slug(ctx context.Context) (string, error) {
	ws, err := s.Workspaces.Get(ctx, workspace(ctx))
	return ws.Slug, err
}

func (s *server) webhookSourceOutput(ctx context.Context, n inbox.Source) (*versioned[WebhookSourceItem], error) {
	slug, err := s.slug(ctx)
	if err != nil {
		return nil, err
	}
	return &versioned[WebhookSourceItem]{ETag: tagOf(n.Version), Body: s.webhookSourceItem(slug, n)}, nil
}

type webhookSourcesInput struct {
	Cursor string `query:"cursor" maxLength:"400"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listWebhookSources lists the sources by name, without their secrets. It is called by the Engine
// Room and by scripts.
func (s *server) listWebhookSources(ctx context.Context, in *webhookSourcesInput) (*answer[page[WebhookSourceItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Inbox.Sources(ctx, workspace(ctx), after.key, in.Limit+1)
	if err != nil {
		return nil, err
	}
	slug, err := s.slug(ctx)
	if err != nil {
		return nil, err
	}
	return sorted(found, in.Limit, func(n inbox.Source) string { return n.Name },
		func(n inbox.Source) WebhookSourceItem { return s.webhookSourceItem(slug, n) }), nil
}

type createWebhookSourceInput struct {
	Body struct {
		Name     string        `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9][a-z0-9_-]*$" patternDescription:"lower-case letters, digits, - and _" doc:"Part of its address"`
		Kind     string        `json:"kind" enum:"github,stripe,slack,standard,hmac,token"`
		Secret   *string       `json:"secret,omitempty" minLength:"16" maxLength:"1024" doc:"What its requests are signed with; left out, one is made. Stripe and Slack make theirs."`
		Rules    []webhookRule `json:"rules,omitempty" maxItems:"50" nullable:"false"`
		Header   string        `json:"header,omitempty" maxLength:"100" doc:"hmac, token: where the signature or the token stands; X-Signature, Authorization"`
		Encoding string        `json:"encoding,omitempty" enum:"hex,base64" doc:"hmac: how the signature is written; hex"`
		Prefix   string        `json:"prefix,omitempty" maxLength:"100" doc:"hmac, token: what stands before it"`
		IDPath   string        `json:"idPath,omitempty" maxLength:"200" doc:"hmac, token: where a delivery's id stands, such as body.id; left out: the digest of the body"`
		Owner    *string       `json:"owner,omitempty" maxLength:"100" doc:"github: of the repository whose missed webhooks are asked for, with repo, hookId and token"`
		Repo     *string       `json:"repo,omitempty" maxLength:"100"`
		HookID   *int64        `json:"hookId,omitempty" minimum:"0" doc:"github: the number of the webhook in the repository's settings"`
		Token    *secretName   `json:"token,omitempty" doc:"github: the secret with a token that may read and write the repository's webhooks"`
		Enabled  *bool         `json:"enabled,omitempty" default:"true"`
	}
}

// createWebhookSource creates a source of webhooks. It is called by the Engine Room and by scripts.
func (s *server) createWebhookSource(ctx context.Context, in *createWebhookSourceInput) (*createdAt[madeWebhookSource], error) {
	by, _ := auth.From(ctx)
	b := in.Body
	n := inbox.Source{
		ID:   s.newID(ctx),
		Name: b.Name, Kind: inbox.Kind(b.Kind), Header: b.Header, Encoding: inbox.Encoding(b.Encoding), Prefix: b.Prefix, IDPath: b.IDPath,
		Enabled: b.Enabled == nil || *b.Enabled, CreatedBy: principal(by), Hook: hookOf(nil, b.Owner, b.Repo, b.HookID, b.Token),
	}
	var err error
	if n.Rules, err = s.rulesOf(ctx, b.Rules); err != nil {
		return nil, err
	}
	value, made, err := secretFor(n.Kind, b.Secret)
	if err != nil {
		return nil, err
	}
	// Seal runs before the transaction, because it may call the key service.
	draft, err := s.Inbox.Seal(ctx, by.Workspace, n, value)
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, "webhook_source.create", func(ctx context.Context, tx *db.Tx) (err error) {
		n, err = s.Inbox.Create(ctx, tx, draft)
		return err
	}, "id", draft.ID, "name", b.Name, "kind", b.Kind)
	if made != "" {
		err = shownOnce(ctx, err, s.Inbox.Source)
	} else {
		n, err = before(ctx, n, err, s.Inbox.Source)
	}
	if err != nil {
		return nil, err
	}
	slug, err := s.slug(ctx)
	if err != nil {
		return nil, err
	}
	return &createdAt[madeWebhookSource]{"/api/v1/webhook-sources/" + n.ID, tagOf(n.Version),
		madeWebhookSource{s.webhookSourceItem(slug, n), made}}, nil
}

// secretFor returns the given secret, or a generated one. made is the text of a generated secret,
// for the response.
func secretFor(k inbox.Kind, given *string) (v secret.Value, made string, err error) {
	if given != nil {
		return secret.NewValue(*given), "", nil
	}
	if v, err = inbox.NewSecret(k); err != nil {
		return v, "", err
	}
	return v, v.Reveal(), nil
}

// rulesOf converts rules, and refuses skills and automations that the workspace does not have.
func (s *server) rulesOf(ctx context.Context, given []webhookRule) ([]inbox.Rule, error) {
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, invalid(problem.At("body.rules", "expected JSON"))
	}
	var rules []inbox.Rule
	if err := json.Unmarshal(raw, &rules); err != nil {
		return nil, invalid(problem.At("body.rules", "expected JSON"))
	}
	for i, r := range rules {
		at := fmt.Sprintf("body.rules[%d].then", i)
		switch {
		case r.Then.Skill != "":
			err = s.ruleSkill(ctx, at+".skill", at+".with", r.Then)
		case len(r.Then.Task) > 0:
			err = s.ruleSkill(ctx, at+".task", at+".task", r.Then)
		case r.Then.Automation != "":
			err = s.ruleAutomation(ctx, at, r.Then)
		}
		if err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// ruleAutomation refuses an automation that does not exist or that rules may not run.
func (s *server) ruleAutomation(ctx context.Context, at string, a inbox.Action) error {
	found, err := s.automation(ctx, AutomationPath{a.Automation})
	if errors.Is(err, automation.ErrNotFound) {
		return invalid(problem.At(at+".automation", "expected the name or the id of an automation"))
	}
	if err != nil {
		return err
	}
	usable, err := s.Skills(ctx, workspace(ctx), trace.Webhook)
	if err != nil {
		return err
	}
	if k, ok := usable.Find(found.Skill); ok && k.Through {
		return invalid(problem.At(at+".automation", runsAny))
	}
	return nil
}

// runsAny is the reason why a rule may not run a skill that runs other skills.
const runsAny = "expected one that does not run another skill: name the skill that is meant"

// ruleSkill refuses a skill that rules may not run. It also refuses arguments that do not fit the
// skill, unless they contain templates.
func (s *server) ruleSkill(ctx context.Context, at, inWith string, a inbox.Action) error {
	name, with := a.Call()
	ws := workspace(ctx)
	d, err := s.Registry.Get(ctx, ws, name)
	if errors.Is(err, skill.ErrNotFound) || err == nil && d.Name != name {
		return invalid(problem.At(at, "expected the name of a skill"))
	}
	if err != nil {
		return err
	}
	if d.Scope == skill.External {
		return invalid(problem.At(at, "expected a skill whose scope is internal or both"))
	}
	usable, err := s.Skills(ctx, ws, trace.Webhook)
	if err != nil {
		return err
	}
	k, ok := usable.Find(name)
	if ok && k.Through {
		return invalid(problem.At(at, runsAny))
	}
	if !ok || k.Name != name || bytes.Contains(with, []byte("{{")) {
		return nil
	}
	if len(with) == 0 {
		with = json.RawMessage("{}")
	}
	if violations := k.Check(ctx, with); len(violations) > 0 {
		return misfits(inWith, violations)
	}
	return nil
}

// WebhookSourcePath names a source.
type WebhookSourcePath struct {
	ID string `path:"id" minLength:"1" maxLength:"200" doc:"Its id or its name"`
}

func (s *server) webhookSource(ctx context.Context, in WebhookSourcePath) (inbox.Source, error) {
	if unfit(in.ID) != "" {
		return inbox.Source{}, inbox.ErrNotFound
	}
	return s.Inbox.Source(ctx, workspace(ctx), in.ID)
}

// getWebhookSource returns one source, without its secret. It is called by the Engine Room and by
// scripts.
func (s *server) getWebhookSource(ctx context.Context, in *WebhookSourcePath) (*versioned[WebhookSourceItem], error) {
	n, err := s.webhookSource(ctx, *in)
	if err != nil {
		return nil, err
	}
	return s.webhookSourceOutput(ctx, n)
}

type patchWebhookSourceInput struct {
	WebhookSourcePath
	IfMatch
	Body struct {
		Name     *string        `json:"name,omitempty" minLength:"1" maxLength:"63" pattern:"^[a-z0-9][a-z0-9_-]*$" patternDescription:"lower-case letters, digits, - and _" doc:"Changes its address too"`
		Rules    *[]webhookRule `json:"rules,omitempty" maxItems:"50"`
		Header   *string        `json:"header,omitempty" maxLength:"100"`
		Encoding *string        `json:"encoding,omitempty" enum:"hex,base64"`
		Prefix   *string        `json:"prefix,omitempty" maxLength:"100"`
		IDPath   *string        `json:"idPath,omitempty" maxLength:"200"`
		Owner    *string        `json:"owner,omitempty" maxLength:"100" doc:"Empty, with an empty repo and hookId 0: nothing is asked for any more"`
		Repo     *string        `json:"repo,omitempty" maxLength:"100"`
		HookID   *int64         `json:"hookId,omitempty" minimum:"0"`
		Token    *secretName    `json:"token,omitempty"`
		Enabled  *bool          `json:"enabled,omitempty" doc:"What a disabled one sends is refused, and what it sent is parked"`
	}
}

// patchWebhookSource changes the given fields of a source. It is called by the Engine Room and by
// scripts.
func (s *server) patchWebhookSource(ctx context.Context, in *patchWebhookSourceInput) (*versioned[WebhookSourceItem], error) {
	n, err := s.webhookSource(ctx, in.WebhookSourcePath)
	if err != nil {
		return nil, err
	}
	if err := in.matches(n.Version); err != nil {
		return nil, err
	}
	b := in.Body
	db.Patch(&n.Name, b.Name)
	db.Patch(&n.Header, b.Header)
	db.Patch(&n.Prefix, b.Prefix)
	db.Patch(&n.IDPath, b.IDPath)
	if b.Encoding != nil {
		n.Encoding = inbox.Encoding(*b.Encoding)
	}
	db.Patch(&n.Enabled, b.Enabled)
	n.Hook = hookOf(n.Hook, b.Owner, b.Repo, b.HookID, b.Token)
	if b.Rules != nil {
		if n.Rules, err = s.rulesOf(ctx, *b.Rules); err != nil {
			return nil, err
		}
	}
	var changed inbox.Source
	err = s.change(ctx, "webhook_source.update", func(ctx context.Context, tx *db.Tx) (err error) {
		changed, err = s.Inbox.Update(ctx, tx, n)
		return err
	}, "id", n.ID, "name", n.Name, "version", &changed.Version)
	if err != nil {
		return nil, err
	}
	return s.webhookSourceOutput(ctx, changed)
}

// deleteWebhookSource deletes a source. Its deliveries remain listed; those that are not done are
// parked. It is called by the Engine Room and by scripts.
func (s *server) deleteWebhookSource(ctx context.Context, in *WebhookSourcePath) (*struct{}, error) {
	n, err := s.webhookSource(ctx, *in)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, "webhook_source.delete", func(ctx context.Context, tx *db.Tx) error {
		there, err := s.Inbox.Delete(ctx, tx, n.ID)
		if err == nil && !there {
			return inbox.ErrNotFound
		}
		return err
	}, "id", n.ID, "name", n.Name)
}

type rotateWebhookSecretInput struct {
	WebhookSourcePath
	Body *struct {
		Secret *string `json:"secret,omitempty" minLength:"16" maxLength:"1024" doc:"The new one; left out, one is made. Stripe and Slack make theirs."`
	}
}

type rotatedWebhookSecret struct {
	Secret        string     `json:"secret,omitempty" doc:"Shown once; left out where the caller gave it"`
	OldValidUntil *time.Time `json:"oldSecretValidUntil" doc:"Until when the one before is valid too"`
}

// rotateWebhookSecret gives a source a new secret. The old secret stays valid for 24 hours. It is
// called by the Engine Room and by scripts.
func (s *server) rotateWebhookSecret(ctx context.Context, in *rotateWebhookSecretInput) (*answer[rotatedWebhookSecret], error) {
	n, err := s.webhookSource(ctx, in.WebhookSourcePath)
	if err != nil {
		return nil, err
	}
	var given *string
	if in.Body != nil {
		given = in.Body.Secret
	}
	value, made, err := secretFor(n.Kind, given)
	if err != nil {
		return nil, err
	}
	draft, err := s.Inbox.SealAnew(ctx, workspace(ctx), n, value)
	if err != nil {
		return nil, err
	}
	err = s.changeOnce(ctx, "webhook_source.rotate_secret", func(ctx context.Context, tx *db.Tx) (err error) {
		n, err = s.Inbox.Rotate(ctx, tx, draft)
		return err
	}, "id", draft.ID, "name", draft.Name)
	if errors.Is(err, db.ErrUnique) { // the request was executed before, and its response was lost
		if err = notKept; made == "" {
			n, err = s.webhookSource(ctx, in.WebhookSourcePath)
		}
	}
	if err != nil {
		return nil, err
	}
	return answered(rotatedWebhookSecret{made, utc(n.OldUntil)}), nil
}

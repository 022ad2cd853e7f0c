package app

import (
	"context"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	lambdasdk "github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/secret/kms"
	"github.com/lanekeeper/lanekeeper/shared/skill/lambda"
)

// keeper wraps the keys of what is encrypted at rest: KMS where a key of it is
// named, else a file. Neither is asked before a secret is used.
func (c *Core) keeper() secret.Keeper {
	if c.Config.KMSKeyID != "" {
		return kms.New(c.Config.KMSKeyID, func() (aws.Config, error) { return c.AWS(context.Background()) })
	}
	return secret.NewKeyFile(c.Config.SecretKeyFile)
}

// known is what of the configuration nobody may be told.
func (c Config) known() *redact.Redactor {
	r := c.redactor
	if r == nil {
		r = redact.New(nil)
	}
	all := []string{c.AdminToken, c.JWTSecret, c.OpenAIAPIKey, c.AnthropicAPIKey}
	for _, raw := range []string{c.DatabaseURL, c.RedisURL, c.OpenAIBaseURL, c.JWKSURL} {
		all = append(all, passwords(raw)...)
	}
	for _, s := range all {
		if !redact.Ordinary(s) {
			r.Add(secret.NewValue(s))
		}
	}
	return r
}

// passwords are those of a URL, or of a list of key=value as Postgres takes it.
func passwords(raw string) (all []string) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		for _, field := range strings.Fields(raw) {
			if password, ok := strings.CutPrefix(field, "password="); ok {
				all = append(all, strings.Trim(password, "'"))
			}
		}
		return all
	}
	password, _ := u.User.Password()
	return append(all, password, u.Query().Get("password"))
}

// functions invokes the Lambda functions of skills. Its client is made when one is.
func (c *Core) functions() lambda.Invoker { return &functions{core: c} }

type functions struct{ core *Core }

// Invoke implements [lambda.Invoker].
func (f *functions) Invoke(ctx context.Context, in *lambdasdk.InvokeInput, o ...func(*lambdasdk.Options)) (*lambdasdk.InvokeOutput, error) {
	cfg, err := f.core.AWS(ctx)
	if err != nil {
		return nil, err
	}
	return lambdasdk.NewFromConfig(cfg).Invoke(ctx, in, o...)
}

// waiting hands calls that wait to the approvals.
type waiting struct{ *approval.Store }

// Request implements [reason.Approvals].
func (q waiting) Request(ctx context.Context, tx lane.Tx, w reason.Waiting) (string, error) {
	return q.Store.Request(ctx, tx, approval.Approval{
		Skill: w.Skill.Name, SkillID: w.Skill.ID, Arguments: w.Call.Arguments, Why: w.Why,
		Execution: w.Execution.ID, Call: w.CallID, Subject: w.Execution.Subject, Agent: w.Call.Agent, Surface: w.Call.Surface, Trace: w.Execution.Trace,
		Untrusted: w.Call.Untrusted,
	})
}

package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// readTimeout limits the read of secrets, including its retries. Without it, a call from a VPC that
// has no route to AWS would hang. A read takes half of the invocation's time at most: the rest is for the
// work, which goes on with the secrets of before if there are any.
const readTimeout = 15 * time.Second

// secretLife is how long a sandbox caches its secrets. A secret that was rotated or revoked stays in
// use in warm sandboxes at most this long.
const secretLife = 5 * time.Minute

// secrets reads the current value of each secret that the configuration names. The keys of the result
// are ARNs.
func (s *Sandbox) secrets(ctx context.Context) (map[string]string, error) {
	limit := readTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	refs := s.cfg.SecretRefs()
	texts, errs := make([]string, len(refs)), make([]error, len(refs))
	var reading sync.WaitGroup
	for i, ref := range refs {
		reading.Go(func() { texts[i], errs[i] = s.read(ctx, ref.ARN) })
	}
	reading.Wait()
	held := make(map[string]string, len(refs))
	for i, ref := range refs {
		held[ref.ARN] = texts[i]
		if bad, ok := errors.AsType[*SecretError](errs[i]); ok {
			bad.Variable, bad.ARN = strings.Join(ref.Variables, ", "), ref.ARN
		}
	}
	return held, errors.Join(errs...)
}

// resolved returns the configuration with the values of its secrets.
func (s *Sandbox) resolved(held map[string]string) (app.Config, error) {
	cfg := s.cfg
	if arn := cfg.DatabaseSecretARN; arn != "" {
		url, err := secretURL(held[arn], cfg.DatabaseURL)
		if bad, ok := errors.AsType[*SecretError](err); ok {
			bad.Variable, bad.ARN = "DATABASE_SECRET_ARN", arn
		}
		if err != nil {
			return cfg, err
		}
		cfg.DatabaseURL = url
	}
	return cfg.WithSecrets(held)
}

// readSecret reads a secret from Secrets Manager. It creates a client for each call, because a sandbox
// needs one only every few minutes.
func readSecret(ctx context.Context, arn string) (string, error) {
	cfg, err := app.FunctionAWS()
	if err != nil {
		return "", &SecretError{Problem: "the AWS SDK can't be configured", Err: err}
	}
	out, err := secretsmanager.NewFromConfig(cfg).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: aws.String(arn)})
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return "", &SecretError{Problem: "the secret can't be read (" + api.ErrorCode() + "): name one of this region by its whole ARN, " +
			"which the function's role may read; SecretsKmsKeyArn names the key of one that has its own", Err: err}
	}
	if err != nil {
		return "", &SecretError{Problem: "Secrets Manager can't be reached: from a VPC it takes a NAT gateway or an endpoint", Err: err}
	}
	return aws.ToString(out.SecretString), nil
}

// secretURL returns the database URL of a secret, which holds a URL or the JSON of RDS and Aurora. base
// may be empty. It supplies the parts that the secret lacks: a secret that RDS manages holds only the
// user and the password.
func secretURL(secret, base string) (string, error) {
	secret = strings.TrimSpace(secret)
	if strings.HasPrefix(secret, "postgres://") || strings.HasPrefix(secret, "postgresql://") {
		return secret, nil
	}
	var s struct {
		Engine, Username, Password, Host, DBName string
		Port                                     json.Number // sometimes a string
	}
	if err := json.Unmarshal([]byte(secret), &s); err != nil {
		// The error may quote the secret.
		return "", &SecretError{Problem: "the secret is neither a postgres:// URL nor the JSON of an RDS secret"}
	}
	u, err := url.Parse(cmp.Or(base, "postgres:"))
	switch {
	case err != nil || u.Scheme == "":
		return "", &SecretError{Problem: "DATABASE_URL is not a postgres:// URL that the secret could be put into"}
	case s.Username == "" || s.Password == "":
		return "", &SecretError{Problem: "the secret has no username, or no password"}
	case s.Engine != "" && !strings.Contains(s.Engine, "postgres"):
		return "", &SecretError{Problem: "the secret is of a database that is not Postgres"}
	case s.Host == "" && u.Host == "":
		return "", &SecretError{Problem: "the secret has no host: set DATABASE_URL to postgres://host:5432/name beside it"}
	}
	u.User = url.UserPassword(s.Username, s.Password)
	if u.Host == "" {
		u.Host = net.JoinHostPort(s.Host, cmp.Or(s.Port.String(), "5432"))
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/" + cmp.Or(s.DBName, "postgres")
	}
	return u.String(), nil
}

package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"
)

// databaseURL is the URL of the database: DATABASE_URL as it is, or what the
// secret says, as it says it now.
func (s *Sandbox) databaseURL(ctx context.Context) (string, error) {
	if s.cfg.DatabaseSecretARN == "" {
		return s.cfg.DatabaseURL, nil
	}
	secret, err := s.read(ctx, s.cfg.DatabaseSecretARN)
	if err != nil {
		return "", err
	}
	return secretURL(secret, s.cfg.DatabaseURL)
}

// readSecret asks Secrets Manager. The client is not kept: it is used once in a
// sandbox, and after a rotation.
func readSecret(ctx context.Context, arn string) (string, error) {
	cfg, err := awsConfig()
	if err != nil {
		return "", &SecretError{"the AWS SDK can't be configured", err}
	}
	ctx, cancel := context.WithTimeout(ctx, awsTimeout)
	defer cancel()
	out, err := secretsmanager.NewFromConfig(cfg).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: aws.String(arn)})
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return "", &SecretError{"the secret can't be read (" + api.ErrorCode() + ")", err}
	}
	if err != nil {
		return "", &SecretError{"Secrets Manager can't be reached", err}
	}
	return aws.ToString(out.SecretString), nil
}

// secretURL makes a URL of a secret: of a URL, or of the JSON that RDS and Aurora
// keep. base, which may be empty, has what the secret leaves out: secrets that RDS
// manages itself hold user and password only.
func secretURL(secret, base string) (string, error) {
	secret = strings.TrimSpace(secret)
	if strings.HasPrefix(secret, "postgres://") || strings.HasPrefix(secret, "postgresql://") {
		return secret, nil
	}
	var s struct {
		Engine, Username, Password, Host, DBName string
		Port                                     json.Number // some write it as a text
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

package redact_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/redact"
)

func TestNamesThatTellOfASecret(t *testing.T) {
	for _, name := range []string{
		"password", "Password", "PASSWORD", "passwd", "db_password", "userPassword", "password2", "new-password", "smtp_pass", "DB_PASS", "pwd", "passphrase",
		"secret", "secrets", "client_secret", "clientSecret", "ClientSecret", "webhook-secret", "signing_secret", "secret_id", "JWT_SECRET",
		"token", "Token", "access_token", "accessToken", "refresh_token", "id_token", "bot_token", "csrfToken", "X-Auth-Token", "token1", "ADMIN_TOKEN",
		"GATEWAY_TOKEN", "access_tokens", "apiTokens", "session_token", "aws_session_token", "X-Amz-Security-Token", "tokenSecret", "token_value",
		"api_key", "apiKey", "APIKey", "apikey", "api-key", "X-API-Key", "x_api_keys", "OPENAI_API_KEY", "private_key", "privateKey", "private_key_pem",
		"secretKey", "secret_access_key", "AWS_SECRET_ACCESS_KEY", "encryption_key", "signingKey", "ssh_key", "account_key", "accesskey", "secretkey",
		"authorization", "Authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "cookies",
		"credential", "credentials", "dbCredentials", "creds", "connection_string", "connectionString", "dsn", "jwt", "userpassword", "accesstoken", "clientsecret",
	} {
		if !redact.Sensitive(name) {
			t.Errorf("%s is shown", name)
		}
	}
	for _, name := range []string{
		"", "_", "prompt_tokens", "completion_tokens", "total_tokens", "max_tokens", "maxTokens", "max_token", "token_usage", "tokenUsage", "tokens", "tokens_used",
		"beat_tokens", "token_count", "token_limit", "token_budget", "token_budget_remaining", "tokenCountTotal", "input_token", "cached_tokens", "reasoning_tokens",
		"tokenizer", "token_type", "token_url", "tokenEndpoint", "next_page_token", "nextToken", "pageToken", "continuation_token", "eos_token", "eos_token_id",
		"secret_name", "secretName", "secretArn", "DATABASE_SECRET_ARN", "secret_ref", "secretary", "secretariat", "password_policy", "passwordLength", "password_changed_at",
		"client_secret_expires_at", "password_reset_url", "SECRET_KEY_FILE", "private_key_path", "KMS_KEY_ID", "access_key_id", "authorization_endpoint", "authorization_url",
		"cookie_policy", "cookieName", "cookiecutter", "key", "keys", "idempotency_key", "order_key", "session_key", "primary_key", "publicKey", "public_key", "foreignKey",
		"cacheKey", "sort_key", "author", "authority", "authors", "auth", "authenticated", "compass", "passenger", "passed", "pass", "pass_rate", "bypass", "passport",
		"keyboard", "monkey", "description", "dns", "status", "string", "connection", "connections", "cost_usd", "trace_id", "holder", "fence",
	} {
		if redact.Sensitive(name) {
			t.Errorf("%s is hidden", name)
		}
	}
}

package app

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// arnSuffix is the suffix of variables that name a secret in Secrets Manager: X_SECRET_ARN replaces
// X. DATABASE_SECRET_ARN does not follow this rule.
const arnSuffix = "_SECRET_ARN"

// secretVariable is a variable whose value may come from a secret in Secrets Manager.
type secretVariable struct {
	name       string
	value, arn *string
}

// arnName returns the name of the variable that holds the secret's ARN.
func (v secretVariable) arnName() string { return v.name + arnSuffix }

func (c *Config) secretVariables() []secretVariable {
	return []secretVariable{
		{"OPENAI_API_KEY", &c.OpenAIAPIKey, &c.OpenAIAPIKeySecretARN},
		{"ANTHROPIC_API_KEY", &c.AnthropicAPIKey, &c.AnthropicAPIKeySecretARN},
		{"ADMIN_TOKEN", &c.AdminToken, &c.AdminTokenSecretARN},
		{"JWT_SECRET", &c.JWTSecret, &c.JWTSecretSecretARN},
		{"GATEWAY_TOKEN", &c.GatewayToken, &c.GatewayTokenSecretARN},
		{"OTEL_EXPORTER_OTLP_HEADERS", &c.SpansHeaders, &c.SpansHeadersSecretARN},
	}
}

// given reports whether a value is present, or will be: on Lambda, the process reads the secret
// that an ARN names.
func (c Config) given(value, arn string) bool { return value != "" || arn != "" && c.OnLambda() }

// A SecretRef is a secret in Secrets Manager, with the variables that name it.
type SecretRef struct {
	ARN       string
	Variables []string
}

// SecretRefs lists the secrets in Secrets Manager that the configuration names, each once. The
// database's secret is one of them.
func (c Config) SecretRefs() []SecretRef {
	var refs []SecretRef
	add := func(variable, arn string) {
		if arn == "" {
			return
		}
		i := slices.IndexFunc(refs, func(r SecretRef) bool { return r.ARN == arn })
		if i < 0 {
			i, refs = len(refs), append(refs, SecretRef{ARN: arn})
		}
		refs[i].Variables = append(refs[i].Variables, variable)
	}
	add("DATABASE_SECRET_ARN", c.DatabaseSecretARN)
	for _, v := range c.secretVariables() {
		add(v.arnName(), *v.arn)
	}
	return refs
}

// WithSecrets returns the configuration with the values of its secrets. texts maps an ARN to the
// text of the secret. The text is the value itself, or a JSON object with the value under the
// variable's name, so that one secret can hold several values. WithSecrets ignores the database's
// secret. It reports unusable values in a [*problem.ConfigError], which names the variable and the
// ARN and never repeats a value. The loggers of c redact the values from then on.
func (c Config) WithSecrets(texts map[string]string) (Config, error) {
	k := checker{Config: &c}
	for _, v := range c.secretVariables() {
		if *v.arn == "" {
			continue
		}
		if *v.value = valueIn(texts[*v.arn], v.name); *v.value == "" {
			k.bad(v.name, "is missing", "Store it there as plain text, or in a JSON object under the key "+v.name+".")
		}
	}
	c.Known()
	k.people()
	k.tokens()
	k.spans()
	for i, p := range k.problems {
		for _, v := range c.secretVariables() {
			if p.Variable == v.name && *v.arn != "" {
				k.problems[i].Variable = v.arnName()
				k.problems[i].What = "names " + *v.arn + ", in which " + v.name + " " + p.What
			}
		}
	}
	if len(k.problems) > 0 {
		return c, &problem.ConfigError{Problems: k.inOrder()}
	}
	return c, nil
}

// valueIn returns the value of a variable in the text of a secret. It returns an empty text if
// there is none.
func valueIn(text, variable string) string {
	text = strings.TrimSpace(text)
	var members map[string]any
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &members) != nil {
		return text
	}
	value, _ := members[variable].(string)
	return strings.TrimSpace(value)
}

// arns checks that each secret is named by an ARN, and that no value is given twice.
func (k *checker) arns() {
	k.arn("DATABASE_SECRET_ARN", k.DatabaseSecretARN)
	for _, v := range k.secretVariables() {
		k.arn(v.arnName(), *v.arn)
		if *v.arn != "" && *v.value != "" && k.OnLambda() {
			k.bad(v.name, "is set, and so is "+v.arnName(), "Leave one of the two out.")
		}
	}
}

func (k *checker) arn(variable, arn string) {
	if arn != "" && (!strings.HasPrefix(arn, "arn:") || !strings.Contains(arn, ":secretsmanager:")) {
		k.bad(variable, "is not the ARN of a secret in Secrets Manager", "It begins with arn:aws:secretsmanager:.")
	}
}

// orARN suggests a secret as the source of a missing value.
func (k *checker) orARN(variable, arn string) string {
	switch {
	case k.OnLambda():
		return " " + variable + arnSuffix + " may name a secret that has it."
	case arn != "":
		return " (" + variable + arnSuffix + " is for functions on Lambda.)"
	}
	return ""
}

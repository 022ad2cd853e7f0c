package app

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// arnSuffix ends the variables that name a secret in Secrets Manager: X_SECRET_ARN
// stands for X. The database's is DATABASE_SECRET_ARN.
const arnSuffix = "_SECRET_ARN"

// secretVariable is a variable whose value a secret in Secrets Manager may hold.
type secretVariable struct {
	name       string
	value, arn *string
}

// arnName is the variable that names the secret.
func (v secretVariable) arnName() string { return v.name + arnSuffix }

func (c *Config) secretVariables() []secretVariable {
	return []secretVariable{
		{"OPENAI_API_KEY", &c.OpenAIAPIKey, &c.OpenAIAPIKeySecretARN},
		{"ANTHROPIC_API_KEY", &c.AnthropicAPIKey, &c.AnthropicAPIKeySecretARN},
		{"ADMIN_TOKEN", &c.AdminToken, &c.AdminTokenSecretARN},
		{"JWT_SECRET", &c.JWTSecret, &c.JWTSecretSecretARN},
	}
}

// given reports whether a value is there, or will be: functions read the secret that
// an ARN names.
func (c Config) given(value, arn string) bool { return value != "" || arn != "" && c.OnLambda() }

// A SecretRef is a secret in Secrets Manager and the variables that name it.
type SecretRef struct {
	ARN       string
	Variables []string
}

// SecretRefs lists the secrets in Secrets Manager that the configuration names, the
// database's among them, each once.
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

// WithSecrets returns the configuration with the values of its secrets, whose texts are
// given by ARN. A text is the value itself, or a JSON object that has it under the name of
// the variable, so that one secret can hold several. The database's secret is none of its
// business. What can't be used is reported by a [*problem.ConfigError], which names variable and
// ARN and repeats no value. The loggers of c know the values from then on.
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

// valueIn is the value of a variable in the text of a secret; empty where it has none.
func valueIn(text, variable string) string {
	text = strings.TrimSpace(text)
	var members map[string]any
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &members) != nil {
		return text
	}
	value, _ := members[variable].(string)
	return strings.TrimSpace(value)
}

// arns holds that each secret is named by an ARN, and not given twice.
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

// orARN says what else may give a value that is missing.
func (k *checker) orARN(variable, arn string) string {
	switch {
	case k.OnLambda():
		return " " + variable + arnSuffix + " may name a secret that has it."
	case arn != "":
		return " (" + variable + arnSuffix + " is for functions on Lambda.)"
	}
	return ""
}

package app

import (
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// sdkVariables lists the variables of the SDK that FunctionAWS reads.
var sdkVariables = []string{
	"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY",
	"AWS_SESSION_TOKEN", "AWS_ACCOUNT_ID", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_LAMBDA", "AWS_ENDPOINT_URL_SECRETS_MANAGER",
	"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT",
}

// FunctionAWS returns the same configuration as the SDK's own chain, for the variables that Lambda
// and people set.
func TestFunctionAWSIsWhatTheChainSays(t *testing.T) {
	onLambda := map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t",
	}
	for name, set := range map[string]map[string]string{
		"as Lambda sets it":          {},
		"an account":                 {"AWS_ACCOUNT_ID": "123456789012"},
		"one endpoint for all":       {"AWS_ENDPOINT_URL": "http://localhost:1"},
		"one for a service":          {"AWS_ENDPOINT_URL_SECRETS_MANAGER": "http://localhost:2"},
		"both":                       {"AWS_ENDPOINT_URL": "http://localhost:1", "AWS_ENDPOINT_URL_LAMBDA": "http://localhost:2"},
		"both, and they don't count": {"AWS_ENDPOINT_URL": "http://localhost:1", "AWS_ENDPOINT_URL_LAMBDA": "http://localhost:2", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
		"both, and they count":       {"AWS_ENDPOINT_URL": "http://localhost:1", "AWS_ENDPOINT_URL_LAMBDA": "http://localhost:2", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "False"},
		"IPv6 and FIPS":              {"AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_USE_FIPS_ENDPOINT": "TRUE"},
		"neither":                    {"AWS_USE_DUALSTACK_ENDPOINT": "false", "AWS_USE_FIPS_ENDPOINT": "false"},
		"the older names":            {"AWS_REGION": "", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "", "AWS_ACCESS_KEY": "B", "AWS_SECRET_ACCESS_KEY": "", "AWS_SECRET_KEY": "C"},
		"no word":                    {"AWS_USE_FIPS_ENDPOINT": "perhaps"},
	} {
		t.Run(name, func(t *testing.T) {
			env := maps.Clone(onLambda)
			maps.Copy(env, set)
			for _, variable := range sdkVariables {
				t.Setenv(variable, env[variable])
			}
			for _, variable := range []string{"AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
				t.Setenv(variable, "")
			}
			t.Setenv("HOME", t.TempDir()) // no profiles
			want, badChain := config.LoadDefaultConfig(t.Context())
			got, bad := FunctionAWS()
			if (bad == nil) != (badChain == nil) {
				t.Fatalf("%v; the chain: %v", bad, badChain)
			}
			if bad != nil {
				return
			}
			if got.Region != want.Region {
				t.Errorf("region %q, want %q", got.Region, want.Region)
			}
			mine, err := got.Credentials.Retrieve(t.Context())
			theirs, errChain := want.Credentials.Retrieve(t.Context())
			if err != nil || errChain != nil {
				t.Fatal(err, errChain)
			}
			mine.Source, theirs.Source = "", ""
			if mine != theirs {
				t.Errorf("credentials %+v, want %+v", mine, theirs)
			}
			for service, endpoint := range map[string]func(aws.Config) [3]any{
				"lambda": func(c aws.Config) [3]any {
					o := lambda.NewFromConfig(c).Options()
					return [3]any{aws.ToString(o.BaseEndpoint), o.EndpointOptions.UseFIPSEndpoint, o.EndpointOptions.UseDualStackEndpoint}
				},
				"secrets": func(c aws.Config) [3]any {
					o := secretsmanager.NewFromConfig(c).Options()
					return [3]any{aws.ToString(o.BaseEndpoint), o.EndpointOptions.UseFIPSEndpoint, o.EndpointOptions.UseDualStackEndpoint}
				},
				"kms": func(c aws.Config) [3]any {
					o := kms.NewFromConfig(c).Options()
					return [3]any{aws.ToString(o.BaseEndpoint), o.EndpointOptions.UseFIPSEndpoint, o.EndpointOptions.UseDualStackEndpoint}
				},
			} {
				if mine, theirs := endpoint(got), endpoint(want); mine != theirs {
					t.Errorf("%s: %v, want %v", service, mine, theirs)
				}
			}
		})
	}
}

func TestFunctionAWSWithoutCredentials(t *testing.T) {
	for _, variable := range sdkVariables {
		t.Setenv(variable, "")
	}
	cfg, err := FunctionAWS()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.Credentials.Retrieve(t.Context()); err == nil {
		t.Error("credentials out of nothing")
	}
}

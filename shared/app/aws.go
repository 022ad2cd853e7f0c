package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/middleware"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

// FunctionAWS returns the configuration of AWS clients in a Lambda function. It reads region,
// credentials and endpoints from the environment with each call. It does not use the SDK's own
// chain, which also looks for profiles and sign-ins: that would make the binary larger and its
// start slower. It returns an error if a variable is neither true nor false.
func FunctionAWS() (aws.Config, error) {
	var env functionEnv
	var err error
	cfg := aws.Config{
		Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		Credentials: credentials.StaticCredentialsProvider{Value: aws.Credentials{
			AccessKeyID:     cmp.Or(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_ACCESS_KEY")),
			SecretAccessKey: cmp.Or(os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SECRET_KEY")),
			SessionToken:    os.Getenv("AWS_SESSION_TOKEN"),
			AccountID:       os.Getenv("AWS_ACCOUNT_ID"),
			Source:          "environment",
		}},
	}
	for name, set := range map[string]*string{
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": &env.ignored,
		"AWS_USE_DUALSTACK_ENDPOINT":          &env.dualStack,
		"AWS_USE_FIPS_ENDPOINT":               &env.fips,
	} {
		if *set, err = truth(name); err != nil {
			return aws.Config{}, err
		}
	}
	if base := os.Getenv("AWS_ENDPOINT_URL"); base != "" && env.ignored != "true" {
		cfg.BaseEndpoint = &base
	}
	cfg.ConfigSources = []any{env}
	cfg.APIOptions = append(cfg.APIOptions, bar)
	return cfg, nil
}

// bar makes the SDK refuse calls under a context that forbids outbound calls; see
// [outbound.Barred].
func bar(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Lanekeeper.Bar",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
			out middleware.InitializeOutput, meta middleware.Metadata, err error,
		) {
			if err := outbound.Barred(ctx); err != nil {
				return out, meta, err
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
}

// truth reads a variable: "true", "false", or "" if it is not set.
func truth(name string) (string, error) {
	switch value := strings.ToLower(os.Getenv(name)); value {
	case "", "true", "false":
		return value, nil
	}
	return "", fmt.Errorf("configure the AWS SDK: %s is neither true nor false", name)
}

// functionEnv passes settings of the environment to the SDK's clients. Each client looks for its
// methods by their names.
type functionEnv struct{ ignored, dualStack, fips string }

// GetIgnoreConfiguredEndpoints says whether the SDK ignores endpoints of the environment.
func (e functionEnv) GetIgnoreConfiguredEndpoints(context.Context) (value, found bool, err error) {
	return e.ignored == "true", e.ignored != "", nil
}

// GetServiceBaseEndpoint returns the value of AWS_ENDPOINT_URL_ with the service's name appended.
func (e functionEnv) GetServiceBaseEndpoint(_ context.Context, sdkID string) (url string, found bool, err error) {
	url = os.Getenv("AWS_ENDPOINT_URL_" + strings.ReplaceAll(strings.ToUpper(sdkID), " ", "_"))
	return url, url != "", nil
}

// GetUseDualStackEndpoint says whether the SDK uses endpoints that also support IPv6.
func (e functionEnv) GetUseDualStackEndpoint(context.Context) (value aws.DualStackEndpointState, found bool, err error) {
	switch e.dualStack {
	case "true":
		return aws.DualStackEndpointStateEnabled, true, nil
	case "false":
		return aws.DualStackEndpointStateDisabled, true, nil
	}
	return aws.DualStackEndpointStateUnset, false, nil
}

// GetUseFIPSEndpoint says whether the SDK uses endpoints with validated cryptography (FIPS 140).
func (e functionEnv) GetUseFIPSEndpoint(context.Context) (value aws.FIPSEndpointState, found bool, err error) {
	switch e.fips {
	case "true":
		return aws.FIPSEndpointStateEnabled, true, nil
	case "false":
		return aws.FIPSEndpointStateDisabled, true, nil
	}
	return aws.FIPSEndpointStateUnset, false, nil
}

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

// FunctionAWS is how a function reaches AWS: by what Lambda sets in the environment,
// region and credentials, and by the endpoints that somebody sets beside it. It reads
// the environment with each call. The SDK's own chain, which looks for profiles and
// sign-ins as well, would make the bootstrap larger and its start slower.
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

// bar has the SDK call nobody under a context under which nothing is sent.
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

// truth is what a variable says: "true", "false" or, where it is not set, nothing.
func truth(name string) (string, error) {
	switch value := strings.ToLower(os.Getenv(name)); value {
	case "", "true", "false":
		return value, nil
	}
	return "", fmt.Errorf("configure the AWS SDK: %s is neither true nor false", name)
}

// functionEnv answers what a client of the SDK asks its sources for, by the methods that
// the SDK looks for.
type functionEnv struct{ ignored, dualStack, fips string }

// GetIgnoreConfiguredEndpoints says whether endpoints of the environment count.
func (e functionEnv) GetIgnoreConfiguredEndpoints(context.Context) (value, found bool, err error) {
	return e.ignored == "true", e.ignored != "", nil
}

// GetServiceBaseEndpoint is AWS_ENDPOINT_URL_ with the name of a service.
func (e functionEnv) GetServiceBaseEndpoint(_ context.Context, sdkID string) (url string, found bool, err error) {
	url = os.Getenv("AWS_ENDPOINT_URL_" + strings.ReplaceAll(strings.ToUpper(sdkID), " ", "_"))
	return url, url != "", nil
}

// GetUseDualStackEndpoint says whether endpoints are to be reached over IPv6 as well.
func (e functionEnv) GetUseDualStackEndpoint(context.Context) (value aws.DualStackEndpointState, found bool, err error) {
	switch e.dualStack {
	case "true":
		return aws.DualStackEndpointStateEnabled, true, nil
	case "false":
		return aws.DualStackEndpointStateDisabled, true, nil
	}
	return aws.DualStackEndpointStateUnset, false, nil
}

// GetUseFIPSEndpoint says whether endpoints are to be those with validated cryptography.
func (e functionEnv) GetUseFIPSEndpoint(context.Context) (value aws.FIPSEndpointState, found bool, err error) {
	switch e.fips {
	case "true":
		return aws.FIPSEndpointStateEnabled, true, nil
	case "false":
		return aws.FIPSEndpointStateDisabled, true, nil
	}
	return aws.FIPSEndpointStateUnset, false, nil
}

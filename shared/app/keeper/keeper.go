// Package keeper selects the keeper of the keys that encrypt secrets.
package keeper

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/secret/kms"
)

// Of returns the keeper that the configuration names: a key in KMS, otherwise a key file.
func Of(c *app.Core) secret.Keeper {
	if c.Config.KMSKeyID != "" {
		return kms.New(c.Config.KMSKeyID, func() (aws.Config, error) { return c.AWS(context.Background()) })
	}
	return secret.NewKeyFile(c.Config.SecretKeyFile)
}

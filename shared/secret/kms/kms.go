// Package kms uses key-encryption keys in AWS KMS. The keys never leave KMS, and KMS logs each use.
//
// A function needs kms:Encrypt and kms:Decrypt on the key, and kms:Decrypt on earlier keys until
// [secret.Store.Rotate] is done everywhere. It must not have kms:Decrypt on any other key, because
// a sealed value names the key that opens it.
package kms

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// callTime limits a call, including its retries. Without it, a call from a VPC that has no route to
// KMS would hang.
const callTime = 10 * time.Second

// Keeper is a [secret.Keeper] with a key in KMS. It is safe for concurrent use.
//
// KMS can rotate the material of a key by itself and still opens older values; that needs no
// rotation here. A rotation is for another key, under the same alias or another name.
type Keeper struct {
	key    string
	config func() (aws.Config, error)

	mu     sync.Mutex
	client *kms.Client
}

// New returns a keeper for a key, which is named by its id, its ARN, or an alias. It calls neither
// config nor KMS until a key is needed.
func New(key string, config func() (aws.Config, error)) *Keeper {
	return &Keeper{key: key, config: config}
}

func (k *Keeper) kms() (*kms.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		cfg, err := k.config()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", secret.ErrNoKey, err)
		}
		k.client = kms.NewFromConfig(cfg)
	}
	return k.client, nil
}

// Current implements [secret.Keeper]. An alias may point to another key at any time, and only its
// use shows the current one. So Current lets KMS encrypt a text and drops the result.
func (k *Keeper) Current(ctx context.Context) (string, error) {
	// policies may name tables
	id, _, err := k.encrypt(ctx, []byte("which key is it?"), map[string]string{"purpose": "probe", "table": "secrets"})
	return id, err
}

// Wrap implements [secret.Keeper].
func (k *Keeper) Wrap(ctx context.Context, dataKey []byte, at secret.Place) (string, []byte, error) {
	return k.encrypt(ctx, dataKey, bound(at))
}

func (k *Keeper) encrypt(ctx context.Context, text []byte, bound map[string]string) (string, []byte, error) {
	client, err := k.kms()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	out, err := client.Encrypt(ctx, &kms.EncryptInput{KeyId: aws.String(k.key), Plaintext: text, EncryptionContext: bound})
	if err != nil {
		return "", nil, failure("encrypt", err)
	}
	return aws.ToString(out.KeyId), out.CiphertextBlob, nil
}

// Unwrap implements [secret.Keeper].
func (k *Keeper) Unwrap(ctx context.Context, keyID string, wrapped []byte, at secret.Place) ([]byte, error) {
	client, err := k.kms()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	out, err := client.Decrypt(ctx, &kms.DecryptInput{KeyId: aws.String(keyID), CiphertextBlob: wrapped, EncryptionContext: bound(at)})
	if err != nil {
		return nil, failure("decrypt", err)
	}
	return out.Plaintext, nil
}

// bound returns the encryption context, which KMS authenticates with the data key. CloudTrail shows
// it in plain text; it holds names and no values. It omits empty parts, which KMS may refuse; the
// [secret.Sealer] binds the place as well.
func bound(at secret.Place) map[string]string {
	context := map[string]string{"workspace": strings.ToLower(string(at.Workspace)), "table": at.Table, "column": at.Column, "row": at.Row}
	maps.DeleteFunc(context, func(_, value string) bool { return value == "" })
	return context
}

// failure returns the error of a keeper that corresponds to an error of KMS.
func failure(what string, err error) error {
	kind := secret.ErrUnavailable
	refused, ok := errors.AsType[smithy.APIError](err)
	if ok {
		switch refused.ErrorCode() {
		case "InvalidCiphertextException", "IncorrectKeyException":
			kind = secret.ErrDamaged
		case "NotFoundException", "DisabledException", "KMSInvalidStateException", "AccessDeniedException", "InvalidKeyUsageException",
			"InvalidArnException", "ValidationException", "UnrecognizedClientException", "InvalidGrantTokenException",
			"MissingAuthenticationToken", "InvalidSignatureException", "IncompleteSignature", "NotAuthorized", "OptInRequired":
			kind = secret.ErrNoKey
		}
	}
	return fmt.Errorf("%s by KMS: %w: %w", what, kind, err)
}

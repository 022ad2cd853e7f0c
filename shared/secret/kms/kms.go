// Package kms keeps key-encryption keys in AWS KMS: they never leave it, and each
// use of one is on record there.
//
// Of a function's rights it needs kms:Encrypt and kms:Decrypt on the key, and
// kms:Decrypt on those before it until [secret.Store.Rotate] is done everywhere. It
// must have kms:Decrypt on no other: a sealed value names the key that opens it.
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

// callTime ends a call, its retries included: a VPC without a way there would hang it.
const callTime = 10 * time.Second

// Keeper is a [secret.Keeper] over a key in KMS. It is safe for concurrent use.
//
// KMS changes the material of a key by itself where it is told to, and opens what was
// sealed before: no rotation of ours is needed. A rotation is for another key, under
// the same alias or not.
type Keeper struct {
	key    string
	config func() (aws.Config, error)

	mu     sync.Mutex
	client *kms.Client
}

// New is a keeper whose key is named by its id, its ARN, or an alias. Neither config
// nor KMS is asked before a key is needed.
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

// Current implements [secret.Keeper]. What an alias stands for may change at any
// time, and only a use of it tells: KMS is asked to encrypt a text that nobody needs.
func (k *Keeper) Current(ctx context.Context) (string, error) {
	id, _, err := k.encrypt(ctx, []byte("which key is it?"), map[string]string{"purpose": "probe", "table": "secrets"}) // policies name tables
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

// bound is what KMS authenticates beside the data key. It stands in CloudTrail as it
// is: names, no values. KMS may refuse empty ones, and the [secret.Sealer] binds the
// place as well.
func bound(at secret.Place) map[string]string {
	context := map[string]string{"workspace": strings.ToLower(string(at.Workspace)), "table": at.Table, "column": at.Column, "row": at.Row}
	maps.DeleteFunc(context, func(_, value string) bool { return value == "" })
	return context
}

// failure says which of a keeper's errors an error of KMS is.
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

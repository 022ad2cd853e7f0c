package kms_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// fake implements KMS's wire format, AWS JSON 1.1, for the two calls that the package makes.
type fake struct {
	url string

	mu      sync.Mutex
	keys    map[string][]byte // by ARN; nil: disabled
	aliases map[string]string
	calls   []call
	fail    func(operation string) (status int, kind string) // status 0: the call succeeds
}

// call is a call that the fake has received.
type call struct {
	operation string
	context   map[string]string
	keyID     string
}

const (
	firstKey  = "arn:aws:kms:eu-central-1:123456789012:key/1111"
	secondKey = "arn:aws:kms:eu-central-1:123456789012:key/2222"
	alias     = "alias/lanekeeper"
)

func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{keys: map[string][]byte{}, aliases: map[string]string{alias: firstKey}, fail: func(string) (int, string) { return 0, "" }}
	for _, arn := range []string{firstKey, secondKey} {
		f.keys[arn] = make([]byte, 32)
		rand.Read(f.keys[arn])
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// config returns an SDK configuration that points at the fake.
func (f *fake) config() (aws.Config, error) {
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(f.url), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("id", "key", "session"),
	}, nil
}

type message struct {
	KeyID             string            `json:"KeyId"`
	Plaintext         []byte            `json:",omitempty"`
	CiphertextBlob    []byte            `json:",omitempty"`
	EncryptionContext map[string]string `json:",omitempty"`
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var in message
	operation, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || !ok || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		refuse(w, http.StatusBadRequest, "SerializationException")
		return
	}
	f.calls = append(f.calls, call{operation, in.EncryptionContext, in.KeyID})
	if status, kind := f.fail(operation); status != 0 {
		refuse(w, status, kind)
		return
	}
	arn := in.KeyID
	if to, ok := f.aliases[arn]; ok {
		arn = to
	}
	key, known := f.keys[arn]
	if !known || key == nil {
		refuse(w, http.StatusBadRequest, map[bool]string{false: "NotFoundException", true: "DisabledException"}[known])
		return
	}
	out := message{KeyID: arn}
	bound, _ := json.Marshal(in.EncryptionContext) // sorted
	switch operation {
	case "Encrypt":
		nonce := make([]byte, 12)
		rand.Read(nonce)
		out.CiphertextBlob = gcm(key).Seal(nonce, nonce, in.Plaintext, bound)
	case "Decrypt":
		var err error
		if len(in.CiphertextBlob) > 12 {
			out.Plaintext, err = gcm(key).Open(nil, in.CiphertextBlob[:12], in.CiphertextBlob[12:], bound)
		}
		if err != nil || out.Plaintext == nil {
			refuse(w, http.StatusBadRequest, "InvalidCiphertextException")
			return
		}
	default:
		refuse(w, http.StatusBadRequest, "UnknownOperationException")
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(out)
}

func gcm(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	g, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return g
}

func refuse(w http.ResponseWriter, status int, kind string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"__type":%q,"message":"told by the fake"}`, kind)
}

// since returns the calls from the n-th on.
func (f *fake) since(n int) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[n:]
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Encode returns the JSON of a request. It does not escape the characters <, > and &.
func Encode(v any) ([]byte, error) {
	out, err := jsonscan.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return []byte(out), nil
}

// Schema returns the schema of a tool's parameters. A tool without a schema takes any object.
func Schema(t llm.Tool) (json.RawMessage, error) {
	schema := bytes.TrimSpace(t.Parameters)
	switch {
	case len(schema) == 0:
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	case !json.Valid(schema):
		return nil, fmt.Errorf("tool %s: the schema is not JSON", t.Name)
	}
	return schema, nil
}

// rawKey holds arguments that are not a JSON object.
const rawKey = "_raw"

// Object returns a call's arguments as a JSON object. Other arguments become {"_raw": "…"}. Many
// providers refuse a conversation that contains a broken call, and the model should see what it
// wrote: it also gets the error.
func Object(a llm.Arguments) json.RawMessage {
	object, ok := a.Object()
	if !ok {
		object, _ = Encode(map[string]string{rawKey: string(a)}) // a string always encodes
	}
	return bytes.ToValidUTF8(object, []byte("\uFFFD"))
}

// maxName is the longest name of a tool, and the longest id that CallID keeps.
const maxName = 64

// ToolName returns a name that every provider accepts. Only names that a model invented are
// changed.
func ToolName(name string) string {
	name = strings.Map(func(r rune) rune {
		if foreign(r) {
			return '_'
		}
		return r
	}, name)
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), maxName)]
}

// CallID returns an id of at most maxLen bytes that strict providers accept. It keeps a valid id.
// Any other id is replaced, always with the same one. maxLen must be at least 29.
func CallID(id string, maxLen int) string {
	if id != "" && len(id) <= min(maxLen, maxName) && !strings.ContainsFunc(id, foreign) {
		return id
	}
	return madeID([]byte(id))
}

// madeID returns an id of our own: a hash of data that only its call has.
func madeID(of ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(of, []byte{0}))
	return "call_" + hex.EncodeToString(sum[:12])
}

// foreign reports whether r is not allowed in a name or an id.
func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Encode is a request's JSON, with the characters <, > and & as they are.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Schema is the schema of a tool's parameters; without one it takes any object.
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

// rawKey holds arguments that are no JSON object.
const rawKey = "_raw"

// Object is a call's arguments as a JSON object. Those that are none become
// {"_raw": "…"}: many providers refuse a conversation that has a broken call in it,
// and the model, which is told what was wrong, should see what it wrote.
func Object(a llm.Arguments) json.RawMessage {
	object, ok := a.Object()
	if !ok {
		object, _ = Encode(map[string]string{rawKey: string(a)}) // strings can be encoded
	}
	return bytes.ToValidUTF8(object, []byte("\uFFFD"))
}

// maxName is how long the name of a tool, or an id that is checked, may be.
const maxName = 64

// ToolName is a name that every provider takes. Only one that a model has made up
// needs another.
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

// CallID is an id that strict providers take, of at most maxLen bytes and at least
// 29: the id itself where it is one, and else always the same.
func CallID(id string, maxLen int) string {
	if id != "" && len(id) <= min(maxLen, maxName) && !strings.ContainsFunc(id, foreign) {
		return id
	}
	return madeID([]byte(id))
}

// madeID is an id of our own, made of what only its call has.
func madeID(of ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(of, []byte{0}))
	return "call_" + hex.EncodeToString(sum[:12])
}

// foreign reports whether r may not stand in a name or an id.
func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

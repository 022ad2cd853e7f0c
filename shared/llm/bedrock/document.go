package bedrock

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// verbatim is a document that is sent as the given JSON. The SDK's own document type converts Go
// values: it sorts keys, writes {} as null, and omits what it can't encode without an error.
type verbatim struct {
	document.Interface // empty; only for its unexported method
	json               []byte
}

func newVerbatim(json []byte) verbatim { return verbatim{document.NewLazyDocument(nil), json} }

// MarshalSmithyDocument implements [document.Interface].
func (v verbatim) MarshalSmithyDocument() ([]byte, error) { return v.json, nil }

// rawKey holds arguments that are not a JSON object.
const rawKey = "_raw"

// inputDocument returns a call's arguments as the object that Bedrock requires.
func inputDocument(arguments llm.Arguments) document.Interface {
	object, ok := arguments.Object()
	if !ok {
		// The model was told what is wrong with its arguments, so it should see them again.
		object = encode(map[string]string{rawKey: string(arguments)})
	}
	return newVerbatim(bytes.ToValidUTF8(object, []byte("\uFFFD")))
}

// schemaDocument returns a tool's schema. A tool without a schema takes any object.
func schemaDocument(parameters json.RawMessage) (document.Interface, error) {
	if len(bytes.TrimSpace(parameters)) == 0 {
		parameters = json.RawMessage(`{"type":"object"}`)
	}
	if !json.Valid(parameters) {
		return nil, fmt.Errorf("the schema is not JSON")
	}
	return newVerbatim(parameters), nil
}

// argumentsOf returns the arguments in a document.
func argumentsOf(d document.Interface) (llm.Arguments, error) {
	if d == nil {
		return "", nil
	}
	raw, err := d.MarshalSmithyDocument()
	if err != nil {
		return "", fmt.Errorf("read the arguments of a call: %w", err)
	}
	var v any
	if err := jsonscan.Decode(raw, &v); err != nil {
		return "", fmt.Errorf("read the arguments of a call: %w", err)
	}
	return llm.Arguments(encode(v)), nil
}

// encode returns JSON without escaping the characters <, > and &. v must always encode.
func encode(v any) []byte {
	out, _ := jsonscan.Encode(v)
	return []byte(out)
}

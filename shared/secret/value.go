package secret

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// A Value is a secret text. Everything that prints, logs or encodes it gets [redact.Mark]. Only
// Reveal returns the text. The zero Value is the empty text.
//
// A function holds the text, so that neither fmt nor a package that prints by reflection finds it:
// fmt calls no methods of values in unexported fields.
type Value struct{ reveal func() string }

// NewValue returns a secret with a text.
func NewValue(text string) Value { return Value{func() string { return text }} }

// Reveal returns the text. The caller must pass it only to where it is meant for.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// String implements [fmt.Stringer].
func (Value) String() string { return redact.Mark }

// GoString implements [fmt.GoStringer].
func (Value) GoString() string { return redact.Mark }

// Format implements [fmt.Formatter], so that no verb shows the text.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redact.Mark) }

// MarshalJSON implements json.Marshaler.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redact.Mark + `"`), nil }

// MarshalText implements [encoding.TextMarshaler].
func (Value) MarshalText() ([]byte, error) { return []byte(redact.Mark), nil }

// LogValue implements [slog.LogValuer].
func (Value) LogValue() slog.Value { return slog.StringValue(redact.Mark) }

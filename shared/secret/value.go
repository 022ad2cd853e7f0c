package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what is shown in the place of a secret.
const Redacted = "[redacted]"

// A Value is a secret text. Whatever prints, logs or encodes it gets [Redacted];
// Reveal alone gives the text. The zero Value is the empty text.
//
// The text is behind a function, where no verb of fmt and no package that prints
// by reflection finds it: fmt calls no method of a value in an unexported field.
type Value struct{ reveal func() string }

// NewValue makes a secret of a text.
func NewValue(text string) Value { return Value{func() string { return text }} }

// Reveal gives the text. Who calls it sees to it that the text goes nowhere but
// where it is meant for.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// String implements [fmt.Stringer].
func (Value) String() string { return Redacted }

// GoString implements [fmt.GoStringer].
func (Value) GoString() string { return Redacted }

// Format implements [fmt.Formatter], so that no verb shows more.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// MarshalJSON implements json.Marshaler.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalText implements [encoding.TextMarshaler].
func (Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements [slog.LogValuer].
func (Value) LogValue() slog.Value { return slog.StringValue(Redacted) }

package secret

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// A Value is a secret text. Whatever prints, logs or encodes it gets [redact.Mark];
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
func (Value) String() string { return redact.Mark }

// GoString implements [fmt.GoStringer].
func (Value) GoString() string { return redact.Mark }

// Format implements [fmt.Formatter], so that no verb shows more.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redact.Mark) }

// MarshalJSON implements json.Marshaler.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redact.Mark + `"`), nil }

// MarshalText implements [encoding.TextMarshaler].
func (Value) MarshalText() ([]byte, error) { return []byte(redact.Mark), nil }

// LogValue implements [slog.LogValuer].
func (Value) LogValue() slog.Value { return slog.StringValue(redact.Mark) }

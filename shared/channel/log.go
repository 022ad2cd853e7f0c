package channel

import (
	"context"
	"log/slog"
	"unicode/utf8"
)

// Log writes messages to the log, for trying things out on a laptop.
type Log struct{ Slog *slog.Logger }

const maxLogged = 4 << 10 // bytes of a body

// Name is "log".
func (*Log) Name() string { return NameLog }

// Send writes one line.
func (l *Log) Send(ctx context.Context, m Message) error {
	if err := Sendable(NameLog, m); err != nil {
		return err
	}
	body := m.Body
	if n := maxLogged; len(body) > n {
		for !utf8.RuneStart(body[n]) {
			n--
		}
		body = body[:n] + "…"
	}
	l.Slog.InfoContext(ctx, "message", "thread", m.Thread, "address", m.Address, "body", body, "bytes", len(m.Body))
	return nil
}

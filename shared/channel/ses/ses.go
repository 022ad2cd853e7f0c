// Package ses sends messages as e-mails over Amazon SES. The function's role needs ses:SendEmail on
// the identity of the sender.
package ses

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sesv2"
	"github.com/aws/aws-sdk-go-v2/service/sesv2/types"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/channel/amazon"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// Channel is the channel email.
type Channel struct {
	// From is the sender, verified by SES: ada@example.com, or Ada <ada@example.com>.
	From   string
	Config amazon.Config
}

// Name is "email".
func (*Channel) Name() string { return channel.NameEmail }

// Unkeyed reports that an interrupted attempt must not be repeated.
func (*Channel) Unkeyed() bool { return true }

// Limit is the longest time of an attempt.
func (*Channel) Limit() time.Duration { return amazon.CallTime }

// Send sends a message as plain text. Its subject is the metadata field "subject", or the first
// line of the body.
func (c *Channel) Send(ctx context.Context, m channel.Message) error {
	if err := channel.Sendable(channel.NameEmail, m); err != nil {
		return err
	}
	if c.From == "" {
		return outbox.Permanently(errors.New("no sender of e-mails is set"))
	}
	text := func(s string) *types.Content {
		return &types.Content{Data: aws.String(s), Charset: aws.String("UTF-8")}
	}
	return amazon.Call(ctx, "SES", c.Config, func(ctx context.Context, cfg aws.Config) error {
		_, err := sesv2.NewFromConfig(cfg).SendEmail(ctx, &sesv2.SendEmailInput{
			FromEmailAddress: aws.String(c.From),
			Destination:      &types.Destination{ToAddresses: []string{m.Address}},
			Content: &types.EmailContent{Simple: &types.Message{
				Subject: text(subject(m)), Body: &types.Body{Text: text(m.Body)},
			}},
		})
		return err
	})
}

const maxSubject = 120 // characters

// subject returns the subject on one line.
func subject(m channel.Message) string {
	s := line(m.Metadata["subject"])
	if s == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(m.Body), "\n")
		s = line(first)
	}
	if utf8.RuneCountInString(s) > maxSubject {
		s = strings.TrimSpace(string([]rune(s)[:maxSubject-1])) + "…"
	}
	return s
}

// line replaces white space and control characters with single spaces, because they could begin
// another header.
func line(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

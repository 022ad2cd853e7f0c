// Package sns sends messages as SMS over Amazon SNS. The function's role needs sns:Publish on "*",
// because phone numbers are not resources.
package sns

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/channel/amazon"
)

// Channel is the channel sms.
type Channel struct{ Config amazon.Config }

// Name is "sms".
func (*Channel) Name() string { return channel.NameSMS }

// Unkeyed reports that an interrupted attempt must not be repeated.
func (*Channel) Unkeyed() bool { return true }

// Limit is the longest time of an attempt.
func (*Channel) Limit() time.Duration { return amazon.CallTime }

// Send sends a message, as several SMS if it is long.
func (c *Channel) Send(ctx context.Context, m channel.Message) error {
	if err := channel.Sendable(channel.NameSMS, m); err != nil {
		return err
	}
	return amazon.Call(ctx, "SNS", c.Config, func(ctx context.Context, cfg aws.Config) error {
		_, err := sns.NewFromConfig(cfg).Publish(ctx, &sns.PublishInput{
			PhoneNumber: aws.String(m.Address), Message: aws.String(m.Body),
			// An answer in a conversation, not a promotion that may wait.
			MessageAttributes: map[string]types.MessageAttributeValue{
				"AWS.SNS.SMS.SMSType": {DataType: aws.String("String"), StringValue: aws.String("Transactional")},
			},
		})
		return err
	})
}

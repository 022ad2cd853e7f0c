package sns_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/channel/sns"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatSNSGets(t *testing.T) {
	var got url.Values
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.Path != "/" || !strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/sns/aws4_request") {
			t.Errorf("asked %s %s: %v", r.Method, r.URL, err)
		}
		got = r.PostForm
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprint(w, `<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishResult><MessageId>m-1</MessageId></PublishResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></PublishResponse>`)
	}))
	t.Cleanup(s.Close)
	c := &sns.Channel{Config: func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "eu-central-1", BaseEndpoint: aws.String(s.URL), HTTPClient: awshttp.NewBuildableClient(),
			Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "key", ""),
		}, nil
	}}
	if err := c.Send(t.Context(), channel.Message{Key: "k", Thread: "t", Address: "+14155550123", Body: "Grüße & more"}); err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"Action": {"Publish"}, "Version": {"2010-03-31"}, "PhoneNumber": {"+14155550123"}, "Message": {"Grüße & more"},
		"MessageAttributes.entry.1.Name":              {"AWS.SNS.SMS.SMSType"},
		"MessageAttributes.entry.1.Value.DataType":    {"String"},
		"MessageAttributes.entry.1.Value.StringValue": {"Transactional"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !c.Unkeyed() || c.Name() != channel.NameSMS {
		t.Error("SNS knows no keys of SMS")
	}
}

func TestWhatIsNotSent(t *testing.T) {
	c := &sns.Channel{Config: func(context.Context) (aws.Config, error) {
		t.Error("AWS is asked")
		return aws.Config{}, errors.New("no")
	}}
	for name, m := range map[string]channel.Message{
		"to no number":   {Address: "arn:aws:sns:eu-central-1:123456789012:all", Body: "x"},
		"without a text": {Address: "+14155550123"},
		"too long":       {Address: "+14155550123", Body: strings.Repeat("x", 1601)},
	} {
		if _, ok := errors.AsType[*outbox.PermanentError](c.Send(t.Context(), m)); !ok {
			t.Errorf("%s is not refused for good", name)
		}
	}
}

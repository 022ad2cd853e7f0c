package ses_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/channel/ses"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sent is a request to SES, in SES's form.
type sent struct {
	FromEmailAddress string
	Destination      map[string][]string
	Content          struct {
		Simple struct {
			Subject content
			Body    map[string]content
		}
	}
}

type content struct{ Data, Charset string }

// channelTo returns the channel with a small SES that answers like the real one.
func channelTo(t testing.TB, got *sent) *ses.Channel {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*got = sent{}
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(got); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v2/email/outbound-emails" || !strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/ses/aws4_request") {
			t.Errorf("asked %s %s: %v", r.Method, r.URL, err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"MessageId":"0102018c-1"}`)
	}))
	t.Cleanup(s.Close)
	return &ses.Channel{From: "Desk <desk@example.com>", Config: func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "eu-central-1", BaseEndpoint: aws.String(s.URL), HTTPClient: awshttp.NewBuildableClient(),
			Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "key", ""),
		}, nil
	}}
}

func TestWhatSESGets(t *testing.T) {
	var got sent
	c := channelTo(t, &got)
	m := channel.Message{Key: "k", Thread: "t", Address: "ada@example.com", Body: "Grüße\n<b>Bob</b>", Metadata: map[string]string{"subject": "Your ticket"}}
	if err := c.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var want sent
	want.FromEmailAddress = "Desk <desk@example.com>"
	want.Destination = map[string][]string{"ToAddresses": {"ada@example.com"}}
	want.Content.Simple.Subject = content{"Your ticket", "UTF-8"}
	want.Content.Simple.Body = map[string]content{"Text": {m.Body, "UTF-8"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !c.Unkeyed() || c.Name() != channel.NameEmail {
		t.Error("SES knows no keys")
	}
}

func TestSubjects(t *testing.T) {
	var got sent
	c := channelTo(t, &got)
	for _, s := range []struct{ subject, body, want string }{
		{"", "Hello Ada,\n\nyour ticket", "Hello Ada,"},
		{" ", "\n\n  Hello\r\nyour ticket", "Hello"},
		{"a\r\nBcc: eve@example.com\x00", "b", "a Bcc: eve@example.com"},
		{"a\u2028b\xff", "c", "a b\uFFFD"},
		{strings.Repeat("ö", 121), "b", strings.Repeat("ö", 119) + "…"},
		{strings.Repeat("ö", 120), "b", strings.Repeat("ö", 120)},
	} {
		m := channel.Message{Address: "ada@example.com", Body: s.body, Metadata: map[string]string{"subject": s.subject}}
		if err := c.Send(t.Context(), m); err != nil || got.Content.Simple.Subject.Data != s.want {
			t.Errorf("%q: %q, %v", s.subject, got.Content.Simple.Subject.Data, err)
		}
	}
}

func TestWhatIsNotSent(t *testing.T) {
	asked := func(context.Context) (aws.Config, error) {
		t.Error("AWS is asked")
		return aws.Config{}, errors.New("no")
	}
	for name, c := range map[string]struct{ from, address, body string }{
		"without a sender": {"", "ada@example.com", "x"},
		"to two":           {"desk@example.com", "ada@example.com,eve@example.com", "x"},
		"without a text":   {"desk@example.com", "ada@example.com", ""},
	} {
		err := (&ses.Channel{From: c.from, Config: asked}).Send(t.Context(), channel.Message{Address: c.address, Body: c.body})
		if _, ok := errors.AsType[*outbox.PermanentError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

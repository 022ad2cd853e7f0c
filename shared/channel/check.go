package channel

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// The names of the channels.
const (
	NameHTTP  = "http"
	NameSlack = "slack"
	NameEmail = "email"
	NameSMS   = "sms"
	NameLog   = "log"
)

const (
	maxURL   = 2 << 10 // bytes
	maxEmail = 254
	maxLabel = 200

	maxText  = 256 << 10 // bytes of a body on channels that have no limit of their own
	maxSlack = 40_000    // characters; Slack cuts longer texts
	maxSMS   = 1_600     // characters; SNS refuses longer texts
)

var (
	slackAddress = pattern.New(`^[CDGU][A-Z0-9]{2,20}(:[0-9]{10}\.[0-9]{6})?$`)
	slackWebhook = pattern.New(`^webhook:[a-z0-9][a-z0-9._-]{0,99}$`)
	phone        = pattern.New(`^\+[1-9][0-9]{6,14}$`)
	mailbox      = pattern.New("^[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*@([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\\.)+[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$")
)

// Check validates an address for a channel. The error is an [problem.InvalidError] of channel or address.
// It does not contain the address. outbound.Client.Check says whether a URL may be reached.
func Check(channel, address string) error {
	wrong := ""
	switch channel {
	case NameHTTP:
		wrong = badURL(address)
	case NameSlack:
		if !slackAddress().MatchString(address) && !slackWebhook().MatchString(address) {
			wrong = "must be the id of a channel, such as C024BE91L, or of a channel and a thread, C024BE91L:1503435956.000247, " +
				"or webhook: and the name of the secret that has the URL of an incoming webhook"
		}
	case NameEmail:
		if name, _, _ := strings.Cut(address, "@"); len(address) > maxEmail || len(name) > 64 || !mailbox().MatchString(address) {
			wrong = "must be an e-mail address without a name, such as ada@example.com"
		}
	case NameSMS:
		if !phone().MatchString(address) {
			wrong = "must be a phone number in international form, such as +4915112345678"
		}
	case NameLog:
		if address == "" || len(address) > maxLabel || !utf8.ValidString(address) || strings.ContainsFunc(address, unicode.IsControl) {
			wrong = "must be a text of 1 to 200 bytes on one line"
		}
	default:
		return problem.Invalid("channel", "must be http, slack, email, sms or log")
	}
	if wrong != "" {
		return problem.Invalid("address", "%s", wrong)
	}
	return nil
}

// badURL returns what is wrong with a URL, or "". A loopback address may use http; the guarded
// client reaches it only if it is allowed.
func badURL(address string) string {
	if len(address) > maxURL {
		return "may have 2 KiB at most"
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || u.Fragment != "" || strings.ContainsFunc(address, unicode.IsSpace):
		return "must be a URL, such as https://example.com/messages"
	case u.User != nil:
		return "must not have a user or a password"
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return ""
	}
	return "must begin with https://"
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// CheckBody validates a text for a channel. The error is an [problem.InvalidError] of body.
func CheckBody(channel, body string) error {
	tooLong := ""
	switch channel {
	case NameSlack:
		if utf8.RuneCountInString(markup.Replace(body)) > maxSlack {
			tooLong = "may have 40,000 characters at most on slack, where & counts as 5, < and > as 4"
		}
	case NameSMS:
		if utf8.RuneCountInString(body) > maxSMS {
			tooLong = "may have 1,600 characters at most by sms"
		}
	default:
		if len(body) > maxText {
			tooLong = "may have 256 KiB at most"
		}
	}
	switch {
	case tooLong != "":
		return problem.Invalid("body", "%s", tooLong)
	case strings.TrimSpace(body) == "" || !utf8.ValidString(body):
		return problem.Invalid("body", "must be a text that is not empty")
	}
	return nil
}

// Sendable runs [Check] and [CheckBody] before a message is sent. An error is an
// [outbox.PermanentError].
func Sendable(channel string, m Message) error {
	for _, err := range []error{Check(channel, m.Address), CheckBody(channel, m.Body)} {
		if err != nil {
			return outbox.Permanently(err)
		}
	}
	return nil
}

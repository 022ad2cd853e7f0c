package channel_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct{ good, bad []string }{
		channel.NameHTTP: {
			[]string{"https://example.com", "https://example.com:8443/a?b=c", "http://127.0.0.1:8080/x", "http://localhost/", "http://[::1]:1/"},
			[]string{
				"", "example.com", "http://example.com/", "http://localhost.example.com/", "ftp://example.com/", "https://", "https:///x", "https://u:p@example.com/",
				"https://example.com/#f", "https://example.com/a b", "https://example.com/\r\nX: y", "HTTPS//x", "javascript:alert(1)",
				"https://example.com/" + strings.Repeat("a", 2048),
			},
		},
		channel.NameSlack: {
			[]string{"C024BE91L", "D024BE91LXY", "G0123456789", "U024BE91L", "C024BE91L:1503435956.000247"},
			[]string{"", "#general", "general", "c024be91l", "C024BE91L:", "C024BE91L:1503435956", "C024BE91L:1503435956.000247\n", "X024BE91L", "C0", "C" + strings.Repeat("0", 30)},
		},
		channel.NameEmail: {
			[]string{"ada@example.com", "a.b+c@mail.example.co.uk", "o'neil@example.com", "x@xn--bcher-kva.example"},
			[]string{
				"", "ada", "ada@", "@example.com", "ada@localhost", "Ada <ada@example.com>", "ada@example.com,eve@example.com", "ada@example.com\r\nBcc: eve@example.com",
				".ada@example.com", "a..b@example.com", "ada@-example.com", "ada@example..com", "ädä@example.com", "ada@1.2.3.4", `"a b"@example.com`,
				strings.Repeat("a", 65) + "@example.com", "a@" + strings.Repeat("a.", 130) + "com",
			},
		},
		channel.NameSMS: {
			[]string{"+4915112345678", "+14155550123", "+1234567"},
			[]string{"", "4915112345678", "+0151123456", "+49 151 1234", "+12345", "+1234567890123456", "+1415555012a", "+14155550123\n"},
		},
		channel.NameLog: {
			[]string{"console", "Ada's laptop"},
			[]string{"", "a\nb", "\x00", "\xff", strings.Repeat("a", 201)},
		},
	} {
		for _, address := range c.good {
			if err := channel.Check(name, address); err != nil {
				t.Errorf("%s %q: %v", name, address, err)
			}
		}
		for _, address := range c.bad {
			err := channel.Check(name, address)
			wrong, ok := errors.AsType[*problem.InvalidError](err)
			if !ok || wrong.Fields[0].Field != "address" {
				t.Errorf("%s %q: %v", name, address, err)
			}
		}
	}
	for _, name := range []string{channel.NameHTTP, channel.NameSlack, channel.NameEmail, channel.NameSMS, channel.NameLog} {
		if err := channel.Check(name, "\x00canary"); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s repeats what it refuses: %v", name, err)
		}
	}
	if wrong, ok := errors.AsType[*problem.InvalidError](channel.Check("fax", "1")); !ok || wrong.Fields[0].Field != "channel" {
		t.Error("there is a channel fax")
	}
}

func TestBodies(t *testing.T) {
	for name, limit := range map[string]int{channel.NameHTTP: 256 << 10, channel.NameSlack: 40_000, channel.NameEmail: 256 << 10, channel.NameSMS: 1600, channel.NameLog: 256 << 10} {
		for body, ok := range map[string]bool{
			"hello": true, "": false, " \n": false, "a\xff": false, strings.Repeat("a", limit): true, strings.Repeat("a", limit+1): false,
		} {
			err := channel.CheckBody(name, body)
			if wrong, is := errors.AsType[*problem.InvalidError](err); ok != (err == nil) || !ok && (!is || wrong.Fields[0].Field != "body") {
				t.Errorf("%s, %d bytes: %v", name, len(body), err)
			}
		}
	}
	if channel.CheckBody(channel.NameSMS, strings.Repeat("ö", 1600)) != nil || channel.CheckBody(channel.NameSlack, strings.Repeat("<", 10_001)) == nil {
		t.Error("what counts are characters, as they are sent")
	}
}

// A valid address can't add a header or a recipient, nor send a request without TLS.
func FuzzCheck(f *testing.F) {
	names := []string{channel.NameHTTP, channel.NameSlack, channel.NameEmail, channel.NameSMS, channel.NameLog}
	for i, seed := range []string{"https://example.com/x", "C024BE91L:1503435956.000247", "ada@example.com", "+4915112345678", "console", "http://localhost/"} {
		f.Add(i%len(names), seed)
	}
	f.Fuzz(func(t *testing.T, i int, address string) {
		name := names[uint(i)%uint(len(names))]
		if channel.Check(name, address) != nil {
			return
		}
		if address == "" || len(address) > 2048 || strings.ContainsAny(address, "\r\n\x00") {
			t.Fatalf("%s takes %q", name, address)
		}
		switch name {
		case channel.NameHTTP:
			u, err := url.Parse(address)
			if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Hostname() != "localhost" && u.Hostname() != "::1" && !strings.HasPrefix(u.Hostname(), "127.") && !strings.HasPrefix(u.Hostname(), "::ffff:") {
				t.Fatalf("http takes %q", address)
			}
		case channel.NameEmail:
			if strings.Count(address, "@") != 1 || strings.ContainsAny(address, " ,;<>\"()") {
				t.Fatalf("email takes %q", address)
			}
		}
	})
}

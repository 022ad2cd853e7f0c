package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Rule names the reason why a request was refused.
type Rule string

// The rules.
const (
	RuleURL       Rule = "url"       // not a URL
	RuleScheme    Rule = "scheme"    // neither http nor https
	RuleUserInfo  Rule = "user-info" // user or password in the URL
	RuleHost      Rule = "host"      // no host, or one in a notation that is not accepted
	RulePort      Rule = "port"      // not 1 to 65535
	RuleAddress   Rule = "address"   // not a public address, nor an allowed one
	RuleMetadata  Rule = "metadata"  // where a platform provides credentials
	RuleMethod    Rule = "method"    // CONNECT and TRACE
	RuleRedirect  Rule = "redirect"  // too many, or one that can't be followed safely
	RuleDowngrade Rule = "downgrade" // a redirect from https to http
)

// ErrBlocked is wrapped by every [BlockedError].
var ErrBlocked = errors.New("outbound request refused")

// A BlockedError says why a URL is not requested. A retry is useless. Of the URL its text contains
// only the host, if that is well-formed. It does not say which address a name has resolved to.
type BlockedError struct {
	Rule   Rule
	Host   string // may be empty
	Detail string
}

func (e *BlockedError) Error() string {
	if e.Host == "" {
		return fmt.Sprintf("%v by rule %s: %s", ErrBlocked, e.Rule, e.Detail)
	}
	return fmt.Sprintf("%v by rule %s: host %s: %s", ErrBlocked, e.Rule, e.Host, e.Detail)
}

func (e *BlockedError) Unwrap() error { return ErrBlocked }

// A SizeError means that a body is larger than allowed.
type SizeError struct {
	What  string // "request body", "response body"
	Limit int64  // bytes
}

func (e *SizeError) Error() string { return fmt.Sprintf("%s is larger than %d bytes", e.What, e.Limit) }

// A TimeoutError means that a request took longer than allowed. It is a context.DeadlineExceeded
// and a net.Error.
type TimeoutError struct {
	What  string // "response", "response headers"
	After time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("no complete %s after %v", e.What, e.After) }

func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Timeout implements net.Error.
func (*TimeoutError) Timeout() bool { return true }

// Temporary implements net.Error.
func (*TimeoutError) Temporary() bool { return true }

// An exchangeError wraps the error that ended a request. People see it, so it repeats nothing that
// a server may have sent: a server can send back our secrets.
type exchangeError struct {
	where string // "GET https://host"; empty while a body is read
	err   error
}

func (e *exchangeError) Unwrap() error { return e.err }

func (e *exchangeError) Error() string {
	text := shown(e.err)
	if e.where != "" {
		text = e.where + ": " + text
	}
	return text
}

const maxShown = 300 // bytes

// shown returns the text of an error that comes from this side, and a general text for all others.
func shown(err error) string {
	for _, ours := range []func(error) (string, bool){
		text[*BlockedError], text[*SizeError], text[*TimeoutError], text[net.Error],
		text[*tls.CertificateVerificationError], text[tls.RecordHeaderError], text[tls.AlertError], // before we have sent anything
	} {
		if s, ok := ours(err); ok {
			return strings.ToValidUTF8(s[:min(len(s), maxShown)], "")
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled.Error()
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the end of the response"
	default:
		return "the HTTP exchange failed"
	}
}

func text[E error](err error) (string, bool) {
	e, ok := errors.AsType[E](err)
	if !ok {
		return "", false
	}
	return e.Error(), true
}

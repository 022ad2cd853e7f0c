package span

import (
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// Link names a span of somebody else's.
type Link struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
}

type linkKey struct{}

func linksOf(ctx context.Context) []Link {
	links, _ := ctx.Value(linkKey{}).([]Link)
	return links
}

// link returns a context whose root spans have a further link.
func link(ctx context.Context, l Link) context.Context {
	links := linksOf(ctx)
	if slices.ContainsFunc(links, func(o Link) bool { return o.Trace == l.Trace && o.Span == l.Span }) {
		return ctx
	}
	return context.WithValue(ctx, linkKey{}, append(slices.Clone(links), l))
}

// Received returns a context whose root spans are linked to the spans that the headers of a request name:
// the W3C's traceparent and X-Ray's X-Amzn-Trace-Id. A header that is not valid, or comes twice, counts as
// missing.
func (x *Exporter) Received(ctx context.Context, h http.Header) context.Context {
	if x == nil {
		return ctx
	}
	if all := h["Traceparent"]; len(all) == 1 {
		if l, ok := parseTraceparent(all[0]); ok {
			ctx = link(ctx, l)
		}
	}
	if all := h["X-Amzn-Trace-Id"]; len(all) == 1 {
		ctx = x.Invoked(ctx, all[0])
	}
	return ctx
}

// Invoked returns a context whose root spans are linked to the span that a header of X-Ray names. A header
// that is not valid, or names no span, counts as missing.
func (x *Exporter) Invoked(ctx context.Context, header string) context.Context {
	if x == nil {
		return ctx
	}
	if l, ok := parseXRay(header); ok {
		ctx = link(ctx, l)
	}
	return ctx
}

// Handler returns a handler for which the spans of requests are linked.
func (x *Exporter) Handler(next http.Handler) http.Handler {
	if x == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx := x.Received(r.Context(), r.Header); ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// parseTraceparent parses a header of W3C Trace Context, level 2. Of a version to come it reads the parts
// that are known.
func parseTraceparent(s string) (l Link, ok bool) {
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(s) < size || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return l, false
	}
	var version, flags [1]byte
	if !decode(version[:], s[:2]) || !decode(l.Trace[:], s[3:35]) || !decode(l.Span[:], s[36:52]) || !decode(flags[:], s[53:55]) {
		return l, false
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(s) != size, len(s) > size && s[size] != '-':
		return l, false
	}
	l.Sampled = flags[0]&1 != 0
	return l, l.Trace != [16]byte{} && l.Span != [8]byte{}
}

// parseXRay parses a header of X-Ray, such as
// Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1.
func parseXRay(s string) (l Link, ok bool) {
	if len(s) > 1024 {
		return l, false
	}
	var root, parent string
	for part := range strings.SplitSeq(s, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case key == "Root" && root == "":
			root = value
		case key == "Parent" && parent == "":
			parent = value
		case key == "Root", key == "Parent":
			return l, false
		case key == "Sampled":
			l.Sampled = value == "1"
		}
	}
	const size = len("1-5759e988-bd862e3fe1be46a994272793")
	if len(root) != size || root[:2] != "1-" || root[10] != '-' ||
		!decode(l.Trace[:4], root[2:10]) || !decode(l.Trace[4:], root[11:]) || !decode(l.Span[:], parent) {
		return l, false
	}
	return l, l.Trace != [16]byte{} && l.Span != [8]byte{}
}

// decode reads hexadecimal digits in lower case that fill into exactly.
func decode(into []byte, digits string) bool {
	if len(digits) != 2*len(into) || strings.ToLower(digits) != digits {
		return false
	}
	_, err := hex.Decode(into, []byte(digits))
	return err == nil
}

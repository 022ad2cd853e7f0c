// Package outbound is the HTTP client for addresses that other parties have chosen: for skills,
// webhooks, channels, gateways and tool servers. It reaches only the public internet, over http and
// https.
//
// # What is refused, and where
//
// A URL is checked as text when it is registered ([Client.Check]), and again before each request
// and each redirect: scheme, user-info, notation of the host, port, and the address if the host is
// one. The text decides little, because a name may resolve to any address, and to another one a
// second later. The dialled address decides. A name is looked up once per connection. Each of its
// addresses is checked against the special-purpose registries of IANA, and only those that pass are
// tried. The dialer checks once more the address that the socket is about to connect to. There is
// no second lookup in between with another answer, and no proxy from the environment that could
// connect elsewhere.
//
// An address that stands for an IPv4 address (::ffff:0:0/96, and NAT64's 64:ff9b::/96) is decided
// as that IPv4 address. Other ways to wrap one (6to4, Teredo, IPv4-compatible) are always refused.
// So is all of IPv6 outside of 2000::/3, where nothing is allocated to the public.
//
// # What can be opened
//
// An entry of [Options.AllowPrivateHosts] is a name, an address or a prefix. A name opens the
// private addresses that it resolves to. An address or a prefix opens these addresses under any
// name. A name or an address may end in a port, and then opens only that port. Private are
// loopback, private-use, shared, unique local and benchmarking addresses. The addresses where a
// platform provides credentials (169.254/16 with the metadata service, and similar ones) are opened
// only by an entry that is exactly that address. All other special addresses (multicast, reserved,
// documentation, transition mechanisms) can't be opened. A bare "localhost" opens every port of the
// sandbox, including that of the Lambda runtime: give the port.
//
// # Redirects
//
// At most [MaxRedirects] are followed, each checked like a first request. A redirect from https to
// http is refused. Only GET and HEAD are sent to another origin, without body, and with only a few
// headers that describe the client: nobody can know which of a caller's headers are secret. A
// redirect from http to https on the same host, both on their default ports, counts as the same
// origin. Redirects are followed below http.Client, so that the policy applies to everything that
// uses [Client.Transport].
//
// # Limits
//
// A request ends after [Options.Timeout], including all its redirects and the reading of its body,
// or when its context ends; a server that sends slowly gains nothing. Bodies are limited in both
// directions. Compression is neither requested nor decoded, so the counted bytes are the actual
// bytes. A caller that decompresses must limit that itself.
//
// # Connections
//
// Only HTTP/1.1 is used. A connection is kept for a short time and reused only for the same scheme,
// host and port. Its address was decided when it was dialled, so reusing it decides nothing again.
// A sandbox that was frozen finds its connections dead: call [Client.CloseIdleConnections] before
// it freezes.
package outbound

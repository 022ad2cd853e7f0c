// Package outbound is the one HTTP client for addresses that somebody else has
// chosen: skills, webhooks, channels, gateways and tool servers. It reaches the
// public internet over http and https, and nothing else.
//
// # What is refused, and where
//
// A URL is checked as text when it is registered ([Client.Check]) and again
// before each request and each redirect: scheme, user-info, notation of the
// host, port, and the address where the host is one. Text decides little,
// though, since a name may stand for any address and for another one a second
// later. So what counts is the address that is dialled: a name is looked up once
// per connection, each of its addresses is held against the special-purpose
// registries of IANA, only those that pass are tried, and the dialer asks once
// more with the address the socket is about to connect to. There is no second
// lookup in between that could answer differently, and no proxy from the
// environment that could connect elsewhere.
//
// Addresses that stand for an IPv4 address (::ffff:0:0/96, and NAT64's
// 64:ff9b::/96) are decided by that one. Other ways to wrap one (6to4, Teredo,
// IPv4-compatible) are refused whatever they wrap, and so is all of IPv6 outside
// 2000::/3, of which nothing is allocated to the public.
//
// # What can be opened
//
// An entry of [Options.AllowPrivateHosts] is a name, which opens the private
// addresses that this name resolves to; or an address or a prefix, which opens
// these addresses under any name; each but a prefix may end in a port, and then
// opens that one only. Private are loopback, private-use, shared, unique local
// and benchmarking addresses. Where a platform keeps its credentials (169.254/16
// with the metadata service, and its like) is not opened by a name or a prefix
// but only by an entry that is this very address. What is left (multicast,
// reserved, documentation, transition mechanisms) cannot be opened. A bare
// "localhost" opens every port of the sandbox, also that of the Lambda runtime:
// give the port.
//
// # Redirects
//
// At most [MaxRedirects] are followed, each checked like a first request. From
// https to http is refused. To another origin go only GET and HEAD, without
// body, and of the headers only a few that describe the client: nobody can say
// which of a caller's headers are secret, so none of them is passed on. http to
// https on the same host, both on their own ports, is the same origin. The
// redirects are followed below http.Client, so that the policy holds for
// whatever is built on [Client.Transport].
//
// # Limits
//
// A request ends after [Options.Timeout] with all its redirects and the reading
// of its body, or when its context ends; a server that trickles gains nothing.
// Bodies are bounded both ways. Compression is neither asked for nor undone, so
// the bytes that are counted are the bytes there are; a caller who inflates
// bounds that himself.
//
// # Connections
//
// Only HTTP/1.1 is spoken. A connection is kept for a short while and used again
// for the same scheme, host and port only: as the address was decided when it was
// dialled, using it again decides nothing anew. A sandbox that was frozen finds
// its connections dead: [Client.CloseIdleConnections] before it freezes.
package outbound

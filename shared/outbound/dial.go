package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Resolver looks up the addresses of a name. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	connectTimeout = 10 * time.Second // for the lookup and all tries
	maxCandidates  = 8                // addresses of a name that are tried
)

// dial connects to the first address of a host that is allowed and answers. Addresses are in the
// order of RFC 6724 and are tried one after the other.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	name, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	name = strings.ToLower(name)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	addrs, err := c.candidates(ctx, name, uint16(port))
	if err != nil {
		return nil, err
	}
	var failures []error
	for i, a := range addrs {
		conn, err := c.try(ctx, network, name, netip.AddrPortFrom(a, uint16(port)), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, failures[0]
}

// try dials one address. It gets an equal share of the time that is left.
func (c *Client) try(ctx context.Context, network, name string, a netip.AddrPort, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	if c.dialer != nil {
		return c.dialer(ctx, network, a.String())
	}
	d := net.Dialer{Control: c.control(name)}
	return d.DialContext(ctx, network, a.String())
}

// control checks the address that a socket is about to connect to.
func (c *Client) control(name string) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("dial: %w", err)
		}
		return c.decide(name, a)
	}
}

// candidates returns the addresses of a host that may be dialled, at least one.
func (c *Client) candidates(ctx context.Context, name string, port uint16) ([]netip.Addr, error) {
	addrs, err := c.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	var passed []netip.Addr
	var refused error
	for _, a := range addrs {
		if err := c.decide(name, netip.AddrPortFrom(a, port)); err == nil {
			passed = append(passed, a.Unmap())
		} else if refused == nil {
			refused = err
		}
	}
	switch {
	case len(passed) > 0:
		return passed[:min(len(passed), maxCandidates)], nil
	case refused != nil:
		return nil, refused
	}
	return nil, &net.DNSError{Err: "no address", Name: name, IsNotFound: true}
}

func (c *Client) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := c.resolver.LookupNetIP(ctx, "ip", name)
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		anonymous := *dns
		anonymous.Server = "" // nobody outside needs to know our server
		return nil, &anonymous
	}
	return addrs, err
}

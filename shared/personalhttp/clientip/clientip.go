// Package clientip finds the address of a request's client behind trusted
// proxies (HTTP contract, section 5).
package clientip

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// The headers in which a proxy can tell the client's address.
const (
	XForwardedFor = "X-Forwarded-For" // what most proxies set
	Forwarded     = "Forwarded"       // RFC 7239
)

// Resolver finds client addresses. It is safe for concurrent use.
type Resolver struct {
	trusted       []netip.Prefix
	header, other string
	log           *slog.Logger

	otherAlone, untrusted atomic.Bool // seen, and logged
}

// New returns a resolver that believes one header of the trusted proxies:
// [XForwardedFor], also if header is empty, or [Forwarded], in any case.
func New(trusted []netip.Prefix, header string, log *slog.Logger) (*Resolver, error) {
	for _, p := range trusted {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("trusted proxy %s is no plain IPv4 or IPv6 prefix", p)
		}
	}
	c := &Resolver{trusted: slices.Clone(trusted), log: log}
	switch {
	case header == "" || strings.EqualFold(header, XForwardedFor):
		c.header, c.other = XForwardedFor, Forwarded
	case strings.EqualFold(header, Forwarded):
		c.header, c.other = Forwarded, XForwardedFor
	default:
		return nil, fmt.Errorf("forwarded header %q is neither %s nor %s", header, XForwardedFor, Forwarded)
	}
	return c, nil
}

// Trusts reports whether a request's connection comes from a trusted proxy.
func (c *Resolver) Trusts(r *http.Request) bool { return c.trusts(parseNode(r.RemoteAddr)) }

func (c *Resolver) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(c.trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// UntrustedProxy reports whether [Resolver.Client] has found a shared address so
// far. The log holds one warning about it.
func (c *Resolver) UntrustedProxy() bool { return c.untrusted.Load() }

// Client returns the client's address: that of the connection, or, when that is a
// trusted proxy, the rightmost hop that is not one. It is the zero Addr where the
// connection has none. A hop that cannot be read ends the walk at the proxy that
// reported it. A trusted proxy that sends only the header that is not believed is
// logged once.
//
// The address is shared if many clients seem to have it: no proxy is trusted, but
// the request comes from a private sender with one of the two headers.
func (c *Resolver) Client(r *http.Request) (address netip.Addr, shared bool) {
	address = parseNode(r.RemoteAddr)
	believed, other := r.Header.Values(c.header), r.Header.Values(c.other)
	if !c.trusts(address) {
		shared = len(c.trusted) == 0 && len(believed)+len(other) > 0 && isPrivate(address)
		if shared && !c.untrusted.Swap(true) {
			c.log.WarnContext(r.Context(), "a private sender sets X-Forwarded-For or Forwarded, but no proxy is trusted: "+
				"if it is a proxy, all clients share its address; name it as a trusted proxy", slog.String("address", spell(address)))
		}
		return address, shared
	}
	if len(believed) == 0 && len(other) > 0 && !c.otherAlone.Swap(true) {
		c.log.WarnContext(r.Context(), "a trusted proxy sends only a forwarded header that is not believed: all its clients share its address; "+
			"name the header that it sets as the forwarded header",
			slog.String("address", spell(address)), slog.String("believed", c.header), slog.String("sent", c.other))
	}
	hops := forwardedFor(believed)
	if c.header == XForwardedFor {
		hops = xForwardedFor(believed)
	}
	for _, hop := range slices.Backward(hops) {
		if !c.trusts(address) || !hop.IsValid() {
			break
		}
		address = hop
	}
	return address, false
}

// isPrivate reports whether a sender is of this site, not of the internet at
// large. The zero Addr is one: a unix socket has none.
func isPrivate(sender netip.Addr) bool {
	carrierGrade := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) // RFC 6598; load balancers use it too
	return !sender.IsValid() || sender.IsPrivate() || sender.IsLoopback() || sender.IsLinkLocalUnicast() || carrierGrade.Contains(sender)
}

// spell writes a sender for the log.
func spell(sender netip.Addr) string {
	if !sender.IsValid() {
		return "a unix socket"
	}
	return sender.String()
}

// xForwardedFor returns the hops of the header's lines, first to last; the zero
// Addr for one that cannot be read.
func xForwardedFor(lines []string) []netip.Addr {
	var hops []netip.Addr
	for _, line := range lines {
		for node := range strings.SplitSeq(line, ",") {
			hops = append(hops, parseNode(strings.Trim(node, " \t")))
		}
	}
	return hops
}

// parseNode reads an address with or without a port, an IPv6 one with or
// without brackets. Zones are dropped and IPv4 in IPv6 is IPv4, so that one
// client has one address.
func parseNode(s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil && strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		a, err = netip.ParseAddr(s[1 : len(s)-1])
	}
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}
		}
		a = withPort.Addr()
	}
	return a.WithZone("").Unmap()
}

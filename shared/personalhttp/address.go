package personalhttp

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// proxies are the senders that are believed when they name who sent to them. It
// is safe for concurrent use.
type proxies struct {
	trusted []netip.Prefix

	// Which header has come from one of them without the other. A client can add
	// a header but take none away: the one that was missing is not the proxy's.
	oldAlone, standardAlone atomic.Bool
}

func newProxies(trusted []netip.Prefix) *proxies { return &proxies{trusted: slices.Clone(trusted)} }

func (p *proxies) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p.trusted, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
}

// origin is where a request seems to come from.
type origin struct {
	address  netip.Addr // the zero Addr where the connection has none
	forwards bool       // it says that it sends for another, and is not trusted to
}

// client returns the client's address (HTTP contract, section 5): that of the
// connection, or, when that is a trusted proxy, the rightmost hop that is not one.
//
// A proxy sets one of the two headers and may pass the other on as the client
// wrote it. So when both are there and disagree that one is believed which has
// come alone before. When that is true of neither, or of both, neither is, and the
// proxy's own address stands.
func (p *proxies) client(r *http.Request) origin {
	connection := parseNode(r.RemoteAddr)
	old, standard := r.Header.Values("X-Forwarded-For"), r.Header.Values("Forwarded")
	if !p.trusts(connection) {
		return origin{connection, len(old)+len(standard) > 0}
	}
	byOld := p.rightmost(connection, xForwardedFor(old))
	byStandard := p.rightmost(connection, forwarded(standard))
	switch {
	case byOld.address == byStandard.address:
		return byOld
	case len(standard) == 0:
		p.oldAlone.Store(true)
		return byOld
	case len(old) == 0:
		p.standardAlone.Store(true)
		return byStandard
	case p.oldAlone.Load() && !p.standardAlone.Load():
		return byOld
	case p.standardAlone.Load() && !p.oldAlone.Load():
		return byStandard
	}
	return origin{address: connection}
}

// rightmost walks from a trusted proxy's connection towards the client as far as
// trusted proxies reach. A hop that cannot be read ends the walk at the proxy
// that reported it.
func (p *proxies) rightmost(connection netip.Addr, hops []netip.Addr) origin {
	at := connection
	for _, hop := range slices.Backward(hops) {
		if !p.trusts(at) {
			return origin{at, true}
		}
		if !hop.IsValid() {
			break
		}
		at = hop
	}
	return origin{address: at}
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

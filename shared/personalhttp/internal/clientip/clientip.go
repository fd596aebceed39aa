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

// The headers in which a proxy can send the client's address.
const (
	XForwardedFor = "X-Forwarded-For" // set by most proxies
	Forwarded     = "Forwarded"       // RFC 7239
)

// Resolver finds client addresses. It is safe for concurrent use.
type Resolver struct {
	trusted       []netip.Prefix
	header, other string // the header that is believed, and the other one
	log           *slog.Logger

	otherAlone, untrusted atomic.Bool // the condition has occurred and is logged
}

// New returns a resolver that believes one header of the trusted proxies:
// [XForwardedFor], which is the default, or [Forwarded], in any case.
func New(trusted []netip.Prefix, header string, log *slog.Logger) (*Resolver, error) {
	for _, p := range trusted {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("trusted proxy %s is not an IPv4 or IPv6 prefix", p)
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

func (c *Resolver) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(c.trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// FromTrustedProxy reports whether a request has come from a trusted proxy, so that its
// headers can be believed as far as the proxy sets or checks them.
func (c *Resolver) FromTrustedProxy(r *http.Request) bool {
	return len(c.trusted) > 0 && c.trusts(parseNode(r.RemoteAddr))
}

// UntrustedProxy reports whether [Resolver.Client] has returned a shared address so
// far. The log has one warning about it.
func (c *Resolver) UntrustedProxy() bool { return c.untrusted.Load() }

// Client returns the client's address: that of the connection, or, if that is a
// trusted proxy, the rightmost hop in the header that is not one. It is the zero Addr
// if the connection has no IP address. An unreadable hop ends the search at the proxy
// that reported it. A trusted proxy that sends only the header that is not believed
// is logged once.
//
// The address is probably shared by many clients if no proxy is trusted, but the
// request comes from a private address and has one of the two headers.
func (c *Resolver) Client(r *http.Request) (address netip.Addr, shared bool) {
	address, shared, _ = c.client(r)
	return address, shared
}

// client is [Resolver.Client]. It also reports whether the address is what the request says of its
// client: a trusted proxy may have sent a hop that is unreadable, or no hop.
func (c *Resolver) client(r *http.Request) (address netip.Addr, shared, told bool) {
	address = parseNode(r.RemoteAddr)
	believed, other := r.Header.Values(c.header), r.Header.Values(c.other)
	if !c.trusts(address) {
		shared = len(c.trusted) == 0 && len(believed)+len(other) > 0 && isPrivate(address)
		if shared && !c.untrusted.Swap(true) {
			c.log.WarnContext(r.Context(), "a private sender sets X-Forwarded-For or Forwarded, but no proxy is trusted: "+
				"if it is a proxy, all clients share its address; name it as a trusted proxy", slog.String("address", senderText(address)))
		}
		return address, shared, !isForwarded(r.Header)
	}
	if len(believed) == 0 && len(other) > 0 && !c.otherAlone.Swap(true) {
		c.log.WarnContext(r.Context(), "a trusted proxy sends only a forwarded header that is not believed: all its clients share its address; "+
			"name the header that it sets as the forwarded header",
			slog.String("address", senderText(address)), slog.String("believed", c.header), slog.String("sent", c.other))
	}
	hops := listValues(believed)
	if c.header == Forwarded {
		hops = forwardedValues(believed, "for")
	}
	told = len(hops) > 0 || !isForwarded(r.Header)
	for _, node := range slices.Backward(hops) {
		if !c.trusts(address) {
			break
		}
		hop := parseNode(node)
		if told = hop.IsValid(); !told {
			break
		}
		address = hop
	}
	return address, false, told
}

// FromLoopback reports whether the client is on this machine: its address is a loopback address,
// and no proxy hides another one. A request that was forwarded counts only if its sender is a
// trusted proxy that names a loopback address as the client. A proxy that sends no header at all
// is not recognised.
func (c *Resolver) FromLoopback(r *http.Request) bool {
	address, _, told := c.client(r)
	return told && address.IsLoopback()
}

// isForwarded reports whether a proxy, or a client that claims to be one, has set a header that
// proxies use for the client's address or for their own name.
func isForwarded(h http.Header) bool {
	for name, values := range h {
		if len(values) == 0 {
			continue
		}
		switch name {
		case Forwarded, "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Proxyuser-Ip",
			"True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "Client-Ip":
			return true
		}
		if strings.HasPrefix(name, "X-Forwarded") {
			return true
		}
	}
	return false
}

// OverHTTPS reports whether the client's connection is known to be encrypted: it is the
// request's own TLS connection, or a trusted proxy sends X-Forwarded-Proto: https or the proto
// parameter of Forwarded. Each of the two that is present must have exactly one value.
func (c *Resolver) OverHTTPS(r *http.Request) bool {
	return r.TLS != nil || c.FromTrustedProxy(r) && sentScheme(r.Header) == "https"
}

// OverHTTP reports whether the client's connection is known not to be encrypted: a trusted proxy
// sends http in these headers, or the request comes from neither a proxy nor this machine (see
// [Resolver.FromLoopback]), without TLS. Any header of a proxy, or a Unix socket, shows that there
// is one.
func (c *Resolver) OverHTTP(r *http.Request) bool {
	switch {
	case r.TLS != nil || c.FromLoopback(r):
		return false
	case c.FromTrustedProxy(r):
		return sentScheme(r.Header) == "http"
	}
	return parseNode(r.RemoteAddr).IsValid() && !isForwarded(r.Header)
}

// sentScheme returns the scheme that a proxy sends, in lower case; "" if it sends none, several,
// or two that differ.
func sentScheme(h http.Header) string {
	schemes := listValues(h.Values("X-Forwarded-Proto"))
	forwarded := forwardedValues(h.Values(Forwarded), "proto")
	if !slices.ContainsFunc(forwarded, func(scheme string) bool { return scheme != "" }) {
		forwarded = nil // Forwarded without proto says nothing about the scheme
	}
	all := slices.Concat(schemes, forwarded)
	if len(all) == 0 || len(schemes) > 1 || len(forwarded) > 1 || !strings.EqualFold(all[0], all[len(all)-1]) {
		return ""
	}
	return strings.ToLower(all[0])
}

// isPrivate reports whether a sender is in a private network. The zero Addr, of a
// Unix socket, counts as private.
func isPrivate(sender netip.Addr) bool {
	carrierGrade := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) // RFC 6598; load balancers use it too
	return !sender.IsValid() || sender.IsPrivate() || sender.IsLoopback() || sender.IsLinkLocalUnicast() || carrierGrade.Contains(sender)
}

// senderText returns a sender for the log.
func senderText(sender netip.Addr) string {
	if !sender.IsValid() {
		return "a unix socket"
	}
	return sender.String()
}

// parseNode parses an address with or without a port, an IPv6 one with or without
// brackets. It removes zones and turns IPv4 in IPv6 into IPv4, so that each client has
// one address. It returns the zero Addr for any other text.
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

// listValues returns the comma-separated values of header lines, first to last.
func listValues(lines []string) []string {
	var values []string
	for _, line := range lines {
		for value := range strings.SplitSeq(line, ",") {
			values = append(values, strings.Trim(value, " \t"))
		}
	}
	return values
}

// unreadable is the value of a line that breaks the grammar. It is neither an address
// nor a scheme.
const unreadable = "?"

// forwardedValues returns a parameter of every element of Forwarded (RFC 7239), first
// to last, empty for an element without it.
//
// Each line is parsed separately, and a line that breaks the grammar is a single
// unreadable element: a quote that a client leaves open must not hide what a proxy
// adds on another line.
func forwardedValues(lines []string, parameter string) []string {
	var all []string
	for _, line := range lines {
		values, ok := parseForwarded(line, parameter)
		if !ok {
			values = []string{unreadable}
		}
		all = append(all, values...)
	}
	return all
}

// parseForwarded returns a parameter of every element of a line, or false if the line
// breaks the grammar.
func parseForwarded(s, parameter string) (values []string, ok bool) {
	value, found := "", false
	for {
		s = strings.TrimLeft(s, " \t")
		if name, text, rest, ok := cutPair(s); ok {
			if strings.EqualFold(name, parameter) {
				if found {
					return nil, false
				}
				value, found = text, true
			}
			s = strings.TrimLeft(rest, " \t")
		}
		switch {
		case s == "":
			return append(values, value), true
		case s[0] == ',':
			values, value, found = append(values, value), "", false
		case s[0] != ';':
			return nil, false
		}
		s = s[1:]
	}
}

// cutPair cuts name=value off s; the value is a token or a quoted string.
func cutPair(s string) (name, value, rest string, ok bool) {
	name, rest = cutToken(s)
	if name == "" || !strings.HasPrefix(rest, "=") {
		return "", "", s, false
	}
	rest = rest[1:]
	if strings.HasPrefix(rest, `"`) {
		value, rest, ok = cutQuoted(rest)
		return name, value, rest, ok
	}
	value, rest = cutToken(rest)
	return name, value, rest, value != ""
}

func cutToken(s string) (token, rest string) {
	end := strings.IndexFunc(s, notInToken)
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

// notInToken follows RFC 9110, section 5.6.2, but admits a colon: many proxies do not
// quote an address with a port.
func notInToken(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/;<=>?@[\]{}`, r)
}

// cutQuoted cuts a quoted string off s, which starts with the quote.
func cutQuoted(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

package personalhttp

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	unlistedWindow = 100                 // requests that are judged together
	unlistedLeast  = unlistedWindow / 10 // of these, what a sender brings that may be a proxy
	unlistedEvery  = time.Hour           // how often the log is told at most
)

// unlisted looks out for proxies that nobody has listed: a few private senders
// that bring most requests, to us or to a listed proxy, with headers that say who
// sent them. They are not believed, but what comes from there is marked as coming
// from many.
// The zero value is good; it is safe for concurrent use.
type unlisted struct {
	mu       sync.Mutex
	requests int                // of this window
	senders  map[netip.Addr]int // how many of them each sender brought that looks like a proxy
	proxies  []netip.Addr       // found in the window before
	told     time.Time
}

// note counts a request. It reports whether where it comes from seems to be a
// proxy that nobody has listed, and returns all of them when that is news.
func (u *unlisted) note(from origin, now time.Time) (isProxy bool, news []netip.Addr) {
	u.mu.Lock()
	defer u.mu.Unlock()
	suspect := from.forwards && isPrivate(from.address)
	if suspect {
		if u.senders == nil {
			u.senders = make(map[netip.Addr]int)
		}
		u.senders[from.address]++
	}
	if u.requests++; u.requests == unlistedWindow {
		u.proxies = bringers(u.senders)
		u.requests, u.senders = 0, nil
		if len(u.proxies) > 0 && now.Sub(u.told) >= unlistedEvery {
			u.told, news = now, u.proxies
		}
	}
	return suspect && slices.Contains(u.proxies, from.address), news
}

// bringers returns the senders that brought much of a window each, in order, if
// together they brought most of it.
func bringers(senders map[netip.Addr]int) []netip.Addr {
	var list []netip.Addr
	together := 0
	for sender, requests := range senders {
		if requests >= unlistedLeast {
			list = append(list, sender)
			together += requests
		}
	}
	if together <= unlistedWindow/2 {
		return nil
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// isPrivate reports whether a sender is of this site, not of the internet at
// large. The zero Addr is one: a unix socket has none.
func isPrivate(sender netip.Addr) bool {
	carrierGrade := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) // RFC 6598; load balancers use it too
	return !sender.IsValid() || sender.IsPrivate() || sender.IsLoopback() || sender.IsLinkLocalUnicast() || carrierGrade.Contains(sender)
}

func (u *unlisted) found() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.proxies) > 0
}

// UnlistedProxy reports whether most of the last hundred requests came from a few
// private or loopback addresses, or by a unix socket, that are no trusted proxies
// but behave like them. All clients then share their addresses, in sessions and
// events, and limits per address are ten times as wide: list them in
// [Options.TrustedProxies]. The log names them.
func (h *Handler) UnlistedProxy() bool { return h.unlisted.found() }

// shared reports whether the address that a request comes from stands for many.
func (h *Handler) shared(ctx context.Context, from origin) bool {
	isProxy, news := h.unlisted.note(from, time.Now())
	if len(news) > 0 {
		h.log.WarnContext(ctx, "most requests come through a proxy that is not listed: all clients have its address; "+
			"list it as a trusted proxy", slog.String("addresses", spell(news)))
	}
	return isProxy
}

// spell writes senders for the log.
func spell(senders []netip.Addr) string {
	var names []string
	for _, sender := range senders {
		name := "a unix socket"
		if sender.IsValid() {
			name = sender.String()
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

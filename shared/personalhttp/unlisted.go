package personalhttp

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	unlistedWindow = 100       // requests that are judged together
	unlistedEvery  = time.Hour // how often the log is told at most
)

// unlisted looks out for a proxy that nobody has listed: a private or loopback
// address from which most requests come, with headers that say who sent them. It
// is not believed, but what comes from there is marked as coming from many.
// The zero value is good; it is safe for concurrent use.
type unlisted struct {
	mu        sync.Mutex
	requests  int        // of this window
	candidate netip.Addr // the first of this window that looks like a proxy
	hits      int        // requests from there
	proxy     netip.Addr // found in the window before; zero if none was
	told      time.Time
}

// note counts a request whose sender is not trusted. It reports whether the
// sender seems to be a proxy, and whether that is news.
func (u *unlisted) note(sender netip.Addr, forwarding bool, now time.Time) (isProxy, news bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	forwarding = forwarding && (sender.IsPrivate() || sender.IsLoopback())
	if forwarding && u.hits == 0 {
		u.candidate = sender
	}
	if forwarding && sender == u.candidate {
		u.hits++
	}
	if u.requests++; u.requests == unlistedWindow {
		u.proxy = netip.Addr{}
		if u.hits > unlistedWindow/2 {
			u.proxy = u.candidate
			news = now.Sub(u.told) >= unlistedEvery
		}
		u.requests, u.hits = 0, 0
	}
	if news {
		u.told = now
	}
	return forwarding && sender == u.proxy, news
}

func (u *unlisted) found() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.proxy.IsValid()
}

// UnlistedProxy reports whether most of the latest requests came from one private
// or loopback address that is no trusted proxy, but behaves like one. All clients
// then share its address, in sessions and events, and limits per address are
// lifted: list it in [Options.TrustedProxies]. The log names the address.
func (h *Handler) UnlistedProxy() bool { return h.unlisted.found() }

// shared reports whether the address of a request's client stands for many.
func (h *Handler) shared(r *http.Request) bool {
	sender := parseNode(r.RemoteAddr)
	if h.proxies.trusts(sender) {
		sender = netip.Addr{} // counts as a request, but is no unlisted proxy
	}
	forwarding := len(r.Header.Values("X-Forwarded-For"))+len(r.Header.Values("Forwarded")) > 0
	isProxy, news := h.unlisted.note(sender, forwarding, time.Now())
	if news {
		h.log.WarnContext(r.Context(), "most requests come through a proxy that is not listed: all clients have its address; "+
			"list it as a trusted proxy", slog.String("address", sender.String()))
	}
	return isProxy
}

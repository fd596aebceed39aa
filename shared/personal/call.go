package personal

import (
	"context"
	"net/netip"
)

// Call is what accompanies every call besides its deadline. The context carries it, on
// both sides of a process boundary. Its texts are cleaned and shortened there, never
// refused: what is not valid UTF-8 becomes U+FFFD.
type Call struct {
	RequestID string     // appears in the logs of host and plugin
	Locale    string     // BCP 47; the language of messages
	Languages string     // BCP 47, best first, separated by commas: what mails may be written in; "": Locale
	Address   netip.Addr // the client's; the zero Addr if unknown
	Shared    bool       // the address is probably that of a proxy with many clients
	Agent     string     // the client's User-Agent, at most 255 characters

	// Poll says that the script of an open page calls to keep it up to date, and not a person. Such a
	// call is no use of a session, whose idle time goes on.
	Poll bool

	// SchemaRevision is the revision of the host's [Schema] when the host sent the call
	// to a module in another process; empty elsewhere.
	SchemaRevision string

	// Administrator names the administrator for whom the host calls [Administration], or
	// [Service.Recover] or [Service.ResendVerification] for a user. It becomes the ActorName
	// of the resulting events of Administration; mails count for the budget of
	// administrators. Names longer than 100 characters are cut.
	Administrator string
}

type callKey struct{}

// WithCall returns a context that carries c.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom returns the call that ctx carries, or the zero Call.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

type rememberedKey struct{}

// AllowRemembered returns a context in which [Service.Profile] may return a profile that it
// remembers, for as long as [Profile].FreshFor allows. It is for a host that verifies the
// user of every page: personalhttp's RequireUser uses it. Several callers may get the same
// profile: it must not be modified. A wrapper of a service only has
// to pass its context on. Use the context for that call alone: every call of Profile in it
// may be answered from memory.
func AllowRemembered(ctx context.Context) context.Context {
	return context.WithValue(ctx, rememberedKey{}, true)
}

// RememberedAllowed reports whether ctx is of [AllowRemembered].
func RememberedAllowed(ctx context.Context) bool { return ctx.Value(rememberedKey{}) != nil }

package personal

import (
	"context"
	"net/netip"
)

// Call is what travels with every call beside its deadline. It is carried in
// the context, on both sides of a process boundary.
type Call struct {
	RequestID string     // stands in the logs of host and plugin
	Locale    string     // BCP 47; the language of mails that the call causes
	Address   netip.Addr // the client's; the zero Addr if unknown
	Shared    bool       // the address seems to be that of a proxy, which many clients share
	Agent     string     // the client's User-Agent, 255 characters at most

	// SchemaRevision is that of the host's [Schema] when it sent the call to a module
	// in another process; empty elsewhere.
	SchemaRevision string

	// Administrator names the administrator on whose behalf the host calls
	// [Administration]. It becomes the ActorName of the events that follow. Names
	// longer than 100 characters are cut.
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

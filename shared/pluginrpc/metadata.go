package pluginrpc

import (
	"context"
	"net/netip"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"

	"github.com/cms-personal/personal/shared/personal"
)

// The keys of a call's metadata. Users have a hand in the values, so they travel
// as binary: a gRPC header holds printable ASCII only.
const (
	keyRequestID = "personal-request-id-bin"
	keyLocale    = "personal-locale-bin"
	keyAddress   = "personal-address-bin"
	keyShared    = "personal-address-shared-bin" // "1", or not there
	keyAgent     = "personal-agent-bin"
	keyRevision  = "personal-revision-bin"
	keyAdmin     = "personal-administrator-bin"
)

// The longest values taken over from the other side, in characters.
const (
	maxRequestID = 128
	maxLocale    = 64
	maxAgent     = 255
	maxRevision  = 256
	maxAdmin     = 100
)

// withRevision returns a context whose call carries the revision of a schema.
func withRevision(ctx context.Context, revision string) context.Context {
	call := personal.CallFrom(ctx)
	call.SchemaRevision = revision
	return personal.WithCall(ctx, call)
}

func requestID(ctx context.Context) string { return personal.CallFrom(ctx).RequestID }

// outgoing returns a context whose call carries what ctx does, and no metadata
// besides.
func outgoing(ctx context.Context) context.Context {
	call := personal.CallFrom(ctx)
	md := metadata.MD{}
	set := func(key, value string) {
		if value != "" {
			md.Set(key, value)
		}
	}
	set(keyRequestID, call.RequestID)
	set(keyLocale, call.Locale)
	set(keyAgent, call.Agent)
	set(keyRevision, call.SchemaRevision)
	set(keyAdmin, call.Administrator)
	if call.Shared {
		set(keyShared, "1")
	}
	if call.Address.IsValid() {
		set(keyAddress, call.Address.String())
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// incoming returns a context with what travelled with the call that ctx belongs
// to. A value that cannot be what it should be is dropped.
func incoming(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	text := func(key string, limit int) string {
		if values := md.Get(key); len(values) == 1 {
			return shorten(values[0], limit)
		}
		return ""
	}
	address, err := netip.ParseAddr(text(keyAddress, maxAgent))
	if err != nil {
		address = netip.Addr{}
	}
	return personal.WithCall(ctx, personal.Call{
		RequestID: text(keyRequestID, maxRequestID),
		Locale:    text(keyLocale, maxLocale),
		Address:   address,
		Shared:    text(keyShared, 1) == "1",
		Agent:     text(keyAgent, maxAgent),

		SchemaRevision: text(keyRevision, maxRevision),
		Administrator:  text(keyAdmin, maxAdmin),
	})
}

// shorten returns s as valid UTF-8 of at most limit characters.
func shorten(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit])
}

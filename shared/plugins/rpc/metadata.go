package rpc

import (
	"context"
	"net/netip"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/tracing"
)

// The keys of a call's metadata that are not in callTexts. All values but the span's are
// binary: users control some of them, and a gRPC text header holds printable ASCII only.
const (
	keyAddress = "personal-address-bin"
	keyShared  = "personal-address-shared-bin" // "1", or absent
	keyPoll    = "personal-poll-bin"           // likewise
)

// maxSpan bounds the texts of W3C Trace Context, in characters. Those of this module are
// shorter.
const maxSpan = 1024

// maxAddress bounds the text of an address, in characters.
const maxAddress = 255

// callText is one text of a personal.Call in the metadata.
type callText struct {
	key   string
	max   int // characters; longer values are cut
	value *string
}

// maxCallKeys is how many keys the metadata of a call without a span has at most.
const maxCallKeys = 9

// callTexts returns the texts of c.
func callTexts(c *personal.Call) [maxCallKeys - 3]callText {
	return [...]callText{
		{"personal-request-id-bin", 128, &c.RequestID},
		{"personal-locale-bin", 64, &c.Locale},
		{"personal-languages-bin", 64, &c.Languages},
		{"personal-agent-bin", 255, &c.Agent},
		{"personal-revision-bin", 256, &c.SchemaRevision},
		{"personal-administrator-bin", 100, &c.Administrator},
	}
}

// outgoing returns a context whose outgoing metadata is the personal.Call of ctx with
// this schema revision, the span of ctx, if there is one, and nothing else. Its texts are
// cleaned: a browser's must not make a call fail.
func outgoing(ctx context.Context, revision string) context.Context {
	call := personal.CallFrom(ctx)
	call.SchemaRevision = revision
	md := make(metadata.MD, maxCallKeys)
	values := make([]string, 0, maxCallKeys) // one allocation for all
	set := func(key, value string) {
		values = append(values, value)
		n := len(values)
		md[key] = values[n-1 : n : n] // so that an append does not overwrite the next one
	}
	for _, t := range callTexts(&call) {
		if *t.value != "" {
			set(t.key, shorten(*t.value, t.max))
		}
	}
	if call.Shared {
		set(keyShared, "1")
	}
	if call.Poll {
		set(keyPoll, "1")
	}
	if call.Address.IsValid() {
		set(keyAddress, call.Address.String())
	}
	if span := tracing.ContextOf(ctx); span.Parent != "" {
		md[tracing.ParentKey] = []string{span.Parent}
		if span.State != "" {
			md[tracing.StateKey] = []string{span.State}
		}
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// incoming returns a context with the personal.Call and the span of the incoming
// metadata. It ignores an invalid address or span, and a value that was sent more than
// once.
func incoming(ctx context.Context) context.Context {
	read := func(key string, limit int) string {
		if values := metadata.ValueFromIncomingContext(ctx, key); len(values) == 1 {
			return shorten(values[0], limit)
		}
		return ""
	}
	var call personal.Call
	for _, t := range callTexts(&call) {
		*t.value = read(t.key, t.max)
	}
	call.Shared = read(keyShared, 1) == "1"
	call.Poll = read(keyPoll, 1) == "1"
	call.Address, _ = netip.ParseAddr(read(keyAddress, maxAddress)) // the zero Addr on an error
	span := tracing.Context{Parent: read(tracing.ParentKey, maxSpan), State: read(tracing.StateKey, maxSpan)}
	return personal.WithCall(span.Join(ctx), call)
}

func requestID(ctx context.Context) string { return personal.CallFrom(ctx).RequestID }

// shorten returns s as valid UTF-8 of at most limit characters.
func shorten(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit])
}

package rpc

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	"github.com/cms-personal/personal/shared/personal"
)

// Both directions use the same values, so only fixed ones show a change that other
// versions do not understand.

func TestInputKinds_AreThoseOfProtobuf(t *testing.T) {
	for kind, want := range map[personal.InputKind]string{
		personal.InputUnset:    "INPUT_KIND_UNSPECIFIED",
		personal.InputText:     "INPUT_KIND_TEXT",
		personal.InputNumber:   "INPUT_KIND_NUMBER",
		personal.InputBoolean:  "INPUT_KIND_BOOLEAN",
		personal.InputList:     "INPUT_KIND_LIST",
		personal.InputRepeated: "INPUT_KIND_REPEATED",
		personal.InputOther:    "INPUT_KIND_OTHER",
	} {
		sent := inputKindToPB(kind)
		if got := sent.String(); got != want {
			t.Errorf("kind %d: got %s, want %s", kind, got, want)
		}
		if got := inputKindFromPB(sent); got != kind {
			t.Errorf("kind %d: got %d back", kind, got)
		}
	}
	if got := inputKindFromPB(99); got != personal.InputOther {
		t.Errorf("unknown kind: got %d, want InputOther", got)
	}
}

func TestOutgoing_KeepsItsMetadataKeys(t *testing.T) {
	ctx := personal.WithCall(t.Context(), personal.Call{
		RequestID: "r", Locale: "ru", Languages: "de,ru", Address: netip.MustParseAddr("192.0.2.1"), Shared: true, Agent: "Browser/1",
		Administrator: "Ada", Poll: true,
	})
	got, _ := metadata.FromOutgoingContext(outgoing(ctx, "1"))
	want := metadata.MD{
		"personal-request-id-bin":     {"r"},
		"personal-locale-bin":         {"ru"},
		"personal-languages-bin":      {"de,ru"},
		"personal-address-bin":        {"192.0.2.1"},
		"personal-address-shared-bin": {"1"},
		"personal-agent-bin":          {"Browser/1"},
		"personal-revision-bin":       {"1"},
		"personal-administrator-bin":  {"Ada"},
		"personal-poll-bin":           {"1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

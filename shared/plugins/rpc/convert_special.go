package rpc

import (
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// The generated conversions of convert.go use the functions of this file whose names end
// with ToPB or FromPB, and those that a goverter:map names.

func intToPB(n int) int64 { return int64(n) }

func intFromPB(n int64) int { return int(n) }

// timeToPB returns nil for the zero time.
func timeToPB(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFromPB(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// durationToPB returns nil unless the duration is positive.
func durationToPB(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}

func durationFromPB(d *durationpb.Duration) time.Duration { return d.AsDuration() }

func addressToPB(address netip.Addr) string { return address.String() }

// addressFromPB turns a malformed address into the zero Addr, which the operation
// refuses.
func addressFromPB(text string) netip.Addr {
	address, _ := netip.ParseAddr(text)
	return address
}

// The texts of a schema are shared, not copied.

func localTextToPB(texts personal.LocalText) map[string]string { return texts }

func localTextFromPB(texts map[string]string) personal.LocalText { return texts }

// The kinds of input have the same numbers in both worlds. A kind that this version does not know
// is InputOther, which is valid for no field.

func inputKindToPB(kind personal.InputKind) personalv1.InputKind { return personalv1.InputKind(kind) }

func inputKindFromPB(kind personalv1.InputKind) personal.InputKind {
	if kind < 0 || kind > personalv1.InputKind_INPUT_KIND_OTHER {
		return personal.InputOther
	}
	return personal.InputKind(kind)
}

// defaultInput returns nil for a field without a default. As a parameter, an unset input is
// a message: it clears the field.
func defaultInput(in personal.Input) *personalv1.Input {
	if in.IsZero() {
		return nil
	}
	return convert.inputToPB(in)
}

// profileFieldToPB returns an error for a value of a type that no user field has.
func profileFieldToPB(f personal.ProfileField) (*personalv1.ProfileField, error) {
	field := &personalv1.ProfileField{Name: f.Name}
	switch v := f.Value.(type) {
	case nil:
	case bool:
		field.Value = &personalv1.Value{Kind: &personalv1.Value_Boolean{Boolean: v}}
	case int64:
		field.Value = &personalv1.Value{Kind: &personalv1.Value_Integer{Integer: v}}
	case float64:
		field.Value = &personalv1.Value{Kind: &personalv1.Value_Number{Number: v}}
	case string:
		field.Value = &personalv1.Value{Kind: &personalv1.Value_Text{Text: v}}
	case []string:
		field.Value = &personalv1.Value{Kind: &personalv1.Value_List{List: &personalv1.TextList{Items: v}}}
	default:
		return nil, fmt.Errorf("field %s: no user field has values of type %T", f.Name, v)
	}
	return field, nil
}

func profileFieldFromPB(f *personalv1.ProfileField) personal.ProfileField {
	field := personal.ProfileField{Name: f.GetName()}
	switch v := f.GetValue().GetKind().(type) {
	case *personalv1.Value_Boolean:
		field.Value = v.Boolean
	case *personalv1.Value_Integer:
		field.Value = v.Integer
	case *personalv1.Value_Number:
		field.Value = v.Number
	case *personalv1.Value_Text:
		field.Value = v.Text
	case *personalv1.Value_List:
		field.Value = append([]string{}, v.List.GetItems()...) // an empty list is not null
	}
	return field
}

func profileOf(r *personalv1.ProfileResponse) personal.Profile {
	return convert.profileFromPB(r.GetProfile())
}

// recoveryCodes are the codes of a response, see isComplete.
type recoveryCodes []string

func recoveryCodesOf(r *personalv1.RenewRecoveryCodesResponse) recoveryCodes {
	return r.GetRecoveryCodes()
}

// aUser is the id of a user, without which a result that is one must not count as a success.
type aUser int64

func createdUserOf(r *personalv1.CreateUserResponse) aUser { return aUser(r.GetId()) }

func foundUserOf(r *personalv1.FindIdentityResponse) aUser { return aUser(r.GetUserId()) }

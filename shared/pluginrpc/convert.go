package pluginrpc

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// mapTexts changes the type of a map's texts.
func mapTexts[To, From ~string](from map[string]From) map[string]To {
	if from == nil {
		return nil
	}
	to := make(map[string]To, len(from))
	for name, text := range from {
		to[name] = To(text)
	}
	return to
}

func convertAll[From, To any](from []From, convert func(From) To) []To {
	if from == nil {
		return nil
	}
	to := make([]To, len(from))
	for i, item := range from {
		to[i] = convert(item)
	}
	return to
}

// timeToPB leaves the zero time out.
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

func credentialsToPB(c personal.Credentials) *personalv1.Credentials {
	return &personalv1.Credentials{UserId: c.UserID, UserHash: c.UserHash}
}

func credentialsFromPB(c *personalv1.Credentials) personal.Credentials {
	return personal.Credentials{UserID: c.GetUserId(), UserHash: c.GetUserHash()}
}

// valueToPB fails on a type that no user field has.
func valueToPB(value any) (*personalv1.Value, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case bool:
		return &personalv1.Value{Kind: &personalv1.Value_Boolean{Boolean: v}}, nil
	case int64:
		return &personalv1.Value{Kind: &personalv1.Value_Integer{Integer: v}}, nil
	case float64:
		return &personalv1.Value{Kind: &personalv1.Value_Number{Number: v}}, nil
	case string:
		return &personalv1.Value{Kind: &personalv1.Value_Text{Text: v}}, nil
	case []string:
		list := &personalv1.TextList{Items: v}
		return &personalv1.Value{Kind: &personalv1.Value_List{List: list}}, nil
	}
	return nil, fmt.Errorf("a value of type %T is no user field's", value)
}

func valueFromPB(value *personalv1.Value) any {
	switch v := value.GetKind().(type) {
	case *personalv1.Value_Boolean:
		return v.Boolean
	case *personalv1.Value_Integer:
		return v.Integer
	case *personalv1.Value_Number:
		return v.Number
	case *personalv1.Value_Text:
		return v.Text
	case *personalv1.Value_List:
		return append([]string{}, v.List.GetItems()...) // an empty list is not null
	}
	return nil
}

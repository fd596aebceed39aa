package pluginrpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

func schemaToPB(s personal.Schema) *personalv1.UserFieldsResponse {
	return &personalv1.UserFieldsResponse{Revision: s.Revision, Fields: convertAll(s.Fields, fieldToPB)}
}

func schemaFromPB(s *personalv1.UserFieldsResponse) personal.Schema {
	return personal.Schema{Revision: s.GetRevision(), Fields: convertAll(s.GetFields(), fieldFromPB)}
}

func fieldToPB(f personal.Field) *personalv1.Field {
	return &personalv1.Field{
		Name:      f.Name,
		Type:      string(f.Type),
		Label:     f.Label,
		Required:  f.Required,
		Default:   inputToPB(f.Default),
		MaxLength: int64(f.MaxLength),
		Min:       f.Min,
		Max:       f.Max,
		Pattern:   f.Pattern,
		Options:   convertAll(f.Options, optionToPB),
		Hidden:    f.Hidden,
		ReadOnly:  f.ReadOnly,
		Order:     int64(f.Order),
		Group:     f.Group,
	}
}

func fieldFromPB(f *personalv1.Field) personal.Field {
	return personal.Field{
		Name:      f.GetName(),
		Type:      personal.FieldType(f.GetType()),
		Label:     f.GetLabel(),
		Required:  f.GetRequired(),
		Default:   inputFromPB(f.GetDefault()),
		MaxLength: int(f.GetMaxLength()),
		Min:       f.Min,
		Max:       f.Max,
		Pattern:   f.GetPattern(),
		Options:   convertAll(f.GetOptions(), optionFromPB),
		Hidden:    f.GetHidden(),
		ReadOnly:  f.GetReadOnly(),
		Order:     int(f.GetOrder()),
		Group:     f.GetGroup(),
	}
}

func optionToPB(o personal.Option) *personalv1.Option {
	return &personalv1.Option{Value: o.Value, Label: o.Label}
}

func optionFromPB(o *personalv1.Option) personal.Option {
	return personal.Option{Value: o.GetValue(), Label: o.GetLabel()}
}

// inputToPB leaves out what is not set.
func inputToPB(in personal.Input) *personalv1.Input {
	if in.IsZero() {
		return nil
	}
	return &personalv1.Input{Kind: kindToPB(in.Kind), Text: in.Text, List: in.List}
}

func inputFromPB(in *personalv1.Input) personal.Input {
	return personal.Input{Kind: kindFromPB(in.GetKind()), Text: in.GetText(), List: in.GetList()}
}

func inputsToPB(from map[string]personal.Input) map[string]*personalv1.Input {
	to := make(map[string]*personalv1.Input, len(from))
	for name, in := range from {
		// A map cannot hold an absent message, and an unset input clears a field.
		to[name] = &personalv1.Input{Kind: kindToPB(in.Kind), Text: in.Text, List: in.List}
	}
	return to
}

func inputsFromPB(from map[string]*personalv1.Input) map[string]personal.Input {
	if from == nil {
		return nil
	}
	to := make(map[string]personal.Input, len(from))
	for name, in := range from {
		to[name] = inputFromPB(in)
	}
	return to
}

func kindToPB(kind personal.InputKind) personalv1.InputKind {
	switch kind {
	case personal.InputUnset:
		return personalv1.InputKind_INPUT_KIND_UNSPECIFIED
	case personal.InputText:
		return personalv1.InputKind_INPUT_KIND_TEXT
	case personal.InputNumber:
		return personalv1.InputKind_INPUT_KIND_NUMBER
	case personal.InputBoolean:
		return personalv1.InputKind_INPUT_KIND_BOOLEAN
	case personal.InputList:
		return personalv1.InputKind_INPUT_KIND_LIST
	case personal.InputRepeated:
		return personalv1.InputKind_INPUT_KIND_REPEATED
	}
	return personalv1.InputKind_INPUT_KIND_OTHER
}

// kindFromPB reads a kind it does not know as one that fits no field.
func kindFromPB(kind personalv1.InputKind) personal.InputKind {
	switch kind {
	case personalv1.InputKind_INPUT_KIND_UNSPECIFIED:
		return personal.InputUnset
	case personalv1.InputKind_INPUT_KIND_TEXT:
		return personal.InputText
	case personalv1.InputKind_INPUT_KIND_NUMBER:
		return personal.InputNumber
	case personalv1.InputKind_INPUT_KIND_BOOLEAN:
		return personal.InputBoolean
	case personalv1.InputKind_INPUT_KIND_LIST:
		return personal.InputList
	case personalv1.InputKind_INPUT_KIND_REPEATED:
		return personal.InputRepeated
	}
	return personal.InputOther
}

package personalhttp

import "github.com/cms-personal/personal/shared/personal"

type fieldsData struct {
	Fields []fieldData `json:"fields"`
}

// fieldData is one user field as a client needs it to draw a form. What is
// unset is left out.
type fieldData struct {
	Name      string             `json:"name"`
	Type      personal.FieldType `json:"type"`
	Label     string             `json:"label"` // in the caller's language
	Required  bool               `json:"required"`
	Default   personal.Input     `json:"default,omitzero"`
	MaxLength int                `json:"max_length,omitempty"`
	MaxItems  int                `json:"max_items,omitempty"`
	Min       *float64           `json:"min,omitempty"`
	Max       *float64           `json:"max,omitempty"`
	Pattern   string             `json:"pattern,omitempty"`
	Options   []optionData       `json:"options,omitempty"`
	ReadOnly  bool               `json:"read_only"`
	Order     int                `json:"order,omitempty"`
	Group     string             `json:"group,omitempty"`
}

type optionData struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

func newFieldsData(list []personal.Field, l *labels) fieldsData {
	d := fieldsData{Fields: make([]fieldData, 0, len(list))}
	for _, f := range list {
		d.Fields = append(d.Fields, fieldData{
			Name:      f.Name,
			Type:      f.Type,
			Label:     l.choose(f.Label, f.Name),
			Required:  f.Required,
			Default:   f.Default,
			MaxLength: f.EffectiveMaxLength(),
			MaxItems:  f.MaxItems(),
			Min:       f.Min,
			Max:       f.Max,
			Pattern:   f.Pattern,
			Options:   newOptionsData(f.Options, l),
			ReadOnly:  f.ReadOnly,
			Order:     f.Order,
			Group:     f.Group,
		})
	}
	return d
}

func newOptionsData(list []personal.Option, l *labels) []optionData {
	d := make([]optionData, 0, len(list))
	for _, o := range list {
		d = append(d, optionData{Value: o.Value, Label: l.choose(o.Label, o.Value)})
	}
	return d
}

package ui

import (
	"maps"
	"slices"
	"strings"
)

// Form is a form with what was typed into it and what is wrong with that.
type Form struct {
	Action   string
	Submit   string // on the button
	Message  string // what went wrong; empty: nothing did
	Faults   []Fault
	Controls []Control
	Hidden   []Hidden
	User     string // whose passwords these are, for password managers; may be empty
	Danger   bool   // the button ends or deletes something
}

// Fault is one thing that is wrong with a form.
type Fault struct {
	ID    string // of the control; may be empty
	Label string
	Text  string
}

// Hidden is a value that travels with a form unseen.
type Hidden struct{ Name, Value string }

// ControlKind says how a control is drawn.
type ControlKind string

// The kinds of control.
const (
	KindInput    ControlKind = "input" // of Control.Type
	KindLongText ControlKind = "long_text"
	KindSelect   ControlKind = "select"
	KindRadios   ControlKind = "radios"
	KindCheckbox ControlKind = "checkbox" // its value is "true" or "false"
	KindText     ControlKind = "text"     // shown, not to be changed
)

// Control is one control of a form.
type Control struct {
	Kind         ControlKind // KindInput if empty
	Name         string
	Label        string
	Hint         string // may be empty
	Value        string // what is shown in it
	Error        string // what is wrong with it; may be empty
	Required     bool
	Type         string // of KindInput, as HTML names it; "text" if empty
	Autocomplete string // as HTML names it; may be empty
	InputMode    string // likewise
	Min, Max     string // of numbers; may be empty
	Step         string // of numbers and times; may be empty
	Options      []Choice
	Script       string // what a script does with it: data-script; may be empty
}

// Choice is one value that a control offers.
type Choice struct{ Value, Label string }

// ID names the control within its page.
func (c Control) ID() string { return "field-" + c.Name }

// HintID names the control's hint.
func (c Control) HintID() string { return c.ID() + "-hint" }

// ErrorID names what is said to be wrong with the control.
func (c Control) ErrorID() string { return c.ID() + "-error" }

// DescribedBy lists the texts that belong to the control.
func (c Control) DescribedBy() string {
	var ids []string
	if c.Hint != "" {
		ids = append(ids, c.HintID())
	}
	if c.Error != "" {
		ids = append(ids, c.ErrorID())
	}
	return strings.Join(ids, " ")
}

// Checked reports whether a checkbox is ticked.
func (c Control) Checked() bool { return c.Value == "true" }

// InputType is the type that HTML has for the control.
func (c Control) InputType() string {
	if c.Type == "" {
		return "text"
	}
	return c.Type
}

// Secret reports whether what is typed is never sent back: passwords are typed
// anew.
func (c Control) Secret() bool { return c.Type == "password" }

// Mixed reports whether some controls must be filled in and others need not.
func (f Form) Mixed() bool {
	required := func(c Control) bool { return c.Required }
	optional := func(c Control) bool { return !c.Required && c.Kind != KindText }
	return slices.ContainsFunc(f.Controls, required) && slices.ContainsFunc(f.Controls, optional)
}

// Fill puts what was posted into the controls.
func (f *Form) Fill(posted Posted) {
	for i := range f.Controls {
		if c := &f.Controls[i]; c.Kind != KindText {
			c.Value = posted.control(*c)
		}
	}
	f.recall(posted)
}

// Refuse notes what is wrong with the form, and with its controls by their
// names. A name that has no control is told of all the same.
func (f *Form) Refuse(message string, faults map[string]string) {
	f.Message, f.Faults = message, nil
	rest := maps.Clone(faults)
	for i := range f.Controls {
		c := &f.Controls[i]
		if c.Error = faults[c.Name]; c.Error != "" {
			f.Faults = append(f.Faults, Fault{ID: c.ID(), Label: c.Label, Text: c.Error})
		}
		delete(rest, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		f.Faults = append(f.Faults, Fault{Label: name, Text: rest[name]})
	}
}

package main

import (
	"encoding/json"
	"io"
	"net/netip"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/texts"
)

// jsonFlag chooses the form of the output. docs/helping-users.md documents the keys: they
// only grow.
type jsonFlag struct {
	JSON bool `name:"json" help:"Print JSON, for programs: docs/helping-users.md lists the keys."`
}

// writeJSON writes an object, indented, and <, > and & as they are.
func writeJSON(w io.Writer, object any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(object)
}

// listedUser is a user of `user list`, with the user fields as an object.
type listedUser struct {
	personal.User
	Fields map[string]any `json:"fields,omitempty"`
}

func userJSON(u personal.User) listedUser {
	listed := listedUser{User: u, Fields: map[string]any{}}
	for _, f := range u.Fields {
		listed.Fields[f.Name] = f.Value
	}
	return listed
}

// explained is what `user explain` prints.
type explained struct {
	User     *personal.User     `json:"user,omitempty"`
	Verdicts []explainedVerdict `json:"verdicts"`
	Hidden   string             `json:"hidden,omitempty"` // the limits that were not looked at
}

type explainedVerdict struct {
	personal.Verdict
	Text string `json:"text"`
	Help string `json:"help,omitempty"`
}

// explanationJSON returns an explanation that was asked for with some addresses. The argument
// who names the user in commands.
func explanationJSON(e personal.Explanation, who string, addresses []netip.Addr, hidden string) explained {
	out := explained{User: e.User, Hidden: hidden}
	for _, v := range e.Verdicts {
		out.Verdicts = append(out.Verdicts, explainedVerdict{v, texts.Sentences(e.User, v), helps(v.Action, who, addresses)})
	}
	return out
}

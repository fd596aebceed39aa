package adminapi

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// Overview is the response of GET, and of a change that succeeded.
type Overview struct {
	Active   manager.Active         `json:"active"`   // while no process serves, with the version to be started
	Previous *manager.VersionStatus `json:"previous"` // null unless its process still exists
	Versions []Version              `json:"versions"` // the highest first
	Swap     *manager.SwapStatus    `json:"swap"`     // null unless one is under way, or a rehearsal

	Rehearsal *manager.RehearsalStatus `json:"rehearsal,omitempty"` // the one under way, or the last one since the host started
}

// Version describes an installed version.
type Version struct {
	Version  string          `json:"version"`
	SHA256   string          `json:"sha256"`
	Protocol catalogue.Range `json:"protocol"`
	Schema   catalogue.Range `json:"schema"`
	Notes    string          `json:"notes,omitempty"`
	LastGood bool            `json:"last_good,omitempty"` // the one to fall back to
	Signer   string          `json:"signer,omitempty"`    // the ID of the key that signed it, if keys are configured
	Unfit    string          `json:"unfit,omitempty"`     // why it would not be started: what is wrong with its signature
}

// NewOverview returns what runs and what is installed now.
func NewOverview(m Manager, c Catalogue) (Overview, error) {
	entries, err := c.List()
	if err != nil {
		return Overview{}, err
	}
	state, err := c.LoadState()
	if err != nil {
		return Overview{}, err
	}
	s := m.Status()
	s.Active.Version = cmp.Or(s.Version, state.Active)
	report := Overview{Active: s.Active, Previous: s.Previous, Versions: []Version{}, Swap: s.Swap, Rehearsal: s.Rehearsal}
	for _, e := range entries {
		v, err := newVersion(c, e)
		if err != nil {
			return Overview{}, err
		}
		v.LastGood = v.Version == state.LastGood
		report.Versions = append(report.Versions, v)
	}
	return report, nil
}

func newVersion(c Catalogue, e catalogue.Entry) (Version, error) {
	m := e.Manifest
	v := Version{Version: m.Version, SHA256: m.SHA256, Protocol: m.Protocol, Schema: m.Schema, Notes: m.Notes}
	var err error
	var refused *catalogue.RefusedError
	if v.Signer, err = c.Signer(e); errors.As(err, &refused) {
		v.Unfit, err = refused.Kind.Error(), nil
	}
	return v, err
}

func (a *api) writeReport(w http.ResponseWriter, r *http.Request, status int) {
	report, err := NewOverview(a.manager, a.catalogue)
	if err != nil {
		a.fail(w, r, "reading the catalogue", err)
		return
	}
	writeJSON(w, status, report)
}

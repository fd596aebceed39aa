package adminpages

import (
	"net/http"

	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// pluginVersions are the installed versions, the highest first.
type pluginVersions struct{ Rows []pluginVersion }

type pluginVersion struct {
	pluginadmin.Version
	Sum                       string // the beginning of the checksum
	Active, OnTrial, Warm     bool
	MayBeChosen, MayBeRemoved bool
}

func (s *site) partPluginVersions(w http.ResponseWriter, r *http.Request) {
	report, err := s.pluginReport()
	if err != nil {
		s.fail(w, r, "the plugin", err)
		return
	}
	answerPart(s, w, r, "plugin", "plugin_versions", newPluginVersions(report))
}

func newPluginVersions(report pluginadmin.Report) pluginVersions {
	var shown pluginVersions
	free := report.Swap == nil || hasSwitched(report.Swap)
	for _, v := range report.Versions {
		active := v.Version == report.Active.Version
		shown.Rows = append(shown.Rows, pluginVersion{
			Version:      v,
			Sum:          v.SHA256[:min(12, len(v.SHA256))],
			Active:       active,
			OnTrial:      active && report.Active.State == pluginmanager.StateBaking,
			Warm:         report.Previous != nil && report.Previous.Version == v.Version && !active,
			MayBeChosen:  !active && free,
			MayBeRemoved: !v.LastGood && !inUse(report, v.Version),
		})
	}
	return shown
}

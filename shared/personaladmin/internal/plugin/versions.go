package plugin

import (
	"net/http"

	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// versionRow is an installed version.
type versionRow struct {
	adminapi.Version
	Sum                  string // start of the checksum
	Active, Baking, Warm bool
	CanUse, CanRemove    bool
	CanRehearse          bool
}

func (p *Pages) sendVersions(w http.ResponseWriter, r *http.Request) error {
	report, err := p.report()
	if err != nil {
		return err
	}
	return p.site.RenderPart(w, r, "plugin", "plugin_versions", versionRows(report))
}

// versionRows returns the installed versions, highest first.
func versionRows(report adminapi.Overview) []versionRow {
	var rows []versionRow
	for _, v := range report.Versions {
		active, free := v.Version == report.Active.Version, report.Swap == nil || switched(report.Swap)
		rows = append(rows, versionRow{
			Version:   v,
			Sum:       v.SHA256[:min(12, len(v.SHA256))],
			Active:    active,
			Baking:    active && report.Active.State == manager.StateBaking,
			Warm:      !active && report.Previous != nil && report.Previous.Version == v.Version,
			CanUse:    !active && free,
			CanRemove: !v.LastGood && !inUse(report, v.Version),

			CanRehearse: free,
		})
	}
	return rows
}

package pluginrpc

import personalv1 "github.com/cms-personal/personal/proto/personal/v1"

func configureToPB(c Configuration, hostID uint32) *personalv1.ConfigureRequest {
	return &personalv1.ConfigureRequest{DatabaseUrl: c.DatabaseURL, Settings: c.Settings, HostBrokerId: hostID}
}

func configurationFromPB(c *personalv1.ConfigureRequest) Configuration {
	return Configuration{DatabaseURL: c.GetDatabaseUrl(), Settings: c.GetSettings()}
}

func reportToPB(r Report) *personalv1.PreflightResponse {
	return &personalv1.PreflightResponse{
		Version:          r.Version,
		SchemaFound:      int64(r.SchemaFound),
		SchemaMinimum:    int64(r.SchemaMinimum),
		SchemaTarget:     int64(r.SchemaTarget),
		SchemaCompatible: int64(r.SchemaCompatible),
		Checks:           convertAll(r.Checks, checkToPB),
	}
}

func reportFromPB(r *personalv1.PreflightResponse) Report {
	return Report{
		Version:          r.GetVersion(),
		SchemaFound:      int(r.GetSchemaFound()),
		SchemaMinimum:    int(r.GetSchemaMinimum()),
		SchemaTarget:     int(r.GetSchemaTarget()),
		SchemaCompatible: int(r.GetSchemaCompatible()),
		Checks:           convertAll(r.GetChecks(), checkFromPB),
	}
}

func checkToPB(c Check) *personalv1.Check {
	return &personalv1.Check{Name: c.Name, Passed: c.Passed, Warning: c.Warning, Reason: c.Reason}
}

func checkFromPB(c *personalv1.Check) Check {
	return Check{Name: c.GetName(), Passed: c.GetPassed(), Warning: c.GetWarning(), Reason: c.GetReason()}
}

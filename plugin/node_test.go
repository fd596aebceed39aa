package main

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// node is the module of a process.
type node struct {
	*module
	log *bytes.Buffer
}

func newNode(t *testing.T, c rpc.Configuration) *node {
	t.Helper()
	log := &bytes.Buffer{}
	built, err := builder(newMeasurements(), slog.New(slog.NewTextHandler(log, nil)), nil)(t.Context(), c, &personaltest.Host{})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{module: built.(*module), log: log}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// begin does what a host does before a process serves.
func (n *node) begin(t *testing.T) {
	t.Helper()
	if report, err := n.Preflight(t.Context()); err != nil || refusal(report) != "" {
		t.Fatalf("got error %v and refusal %q in the preflight, want none", err, refusal(report))
	}
	if err := n.Migrate(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
}

// refusal returns why a preflight refuses the version; "" if it does not.
func refusal(r rpc.PreflightResult) string {
	for _, c := range r.Checks {
		if !c.Warning {
			return c.Name + ": " + c.Reason
		}
	}
	return ""
}

func TestSettings_UnknownOnesAreReported(t *testing.T) {
	n := newNode(t, rpc.Configuration{
		DatabaseURL: testkit.SQLite(t), Settings: []byte("[login]\nwith_phone = true\n[two_moons]\nenabled = true"),
	})
	if !strings.Contains(n.log.String(), "level=WARN") || !strings.Contains(n.log.String(), "[login.with_phone two_moons]") {
		t.Errorf("got log %q, want a warning that names the unknown keys", n.log)
	}
	report, err := n.Preflight(t.Context())
	want := []rpc.UnknownSetting{{Key: "login.with_phone"}, {Key: "two_moons"}}
	if err != nil || !slices.Equal(report.UnknownSettings, want) {
		t.Errorf("got unknown settings %v (%v), want %v", report.UnknownSettings, err, want)
	}
	for _, check := range report.Checks {
		if check.Name == "settings" {
			t.Errorf("got %+v, want that the settings are valid", check)
		}
	}
}

func TestPreflight_SiteRequiresANewerVersion(t *testing.T) {
	own := version
	t.Cleanup(func() { version = own })
	version = "0.2.1"
	for requires, refused := range map[string]bool{"": false, "0.2.0": false, "0.2.1": false, "0.2.2": true, "0.3.0": true, "1.0.0-rc.1": true} {
		n := newNode(t, rpc.Configuration{DatabaseURL: testkit.SQLite(t), Settings: []byte("[site]\nrequires = \"" + requires + "\"")})
		report, err := n.Preflight(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := refusal(report); strings.HasPrefix(got, `settings: site.requires = "`+requires+`", and this is version 0.2.1`) != refused {
			t.Errorf("site.requires = %q: got %q, want a refusal: %t", requires, got, refused)
		}
	}
}

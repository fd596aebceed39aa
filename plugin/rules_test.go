package main

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

const requiredVerification = "[registration]\nemail_verification = \"required\"\n"

// node is the module of a process, and which rules are in force in it.
type node struct {
	*module
	inForce map[string]bool
	log     *bytes.Buffer
}

func newNode(t *testing.T, c pluginrpc.Configuration) *node {
	t.Helper()
	version := func() (string, error) { return "1.0.0", nil }
	log := &bytes.Buffer{}
	built, err := builder(version, newMeasurements(), slog.New(slog.NewTextHandler(log, nil)), nil)(t.Context(), c, &personaltest.Host{})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{module: built.(*module), inForce: map[string]bool{}, log: log}
	for i, r := range n.rules {
		n.rules[i].apply = func(on bool) { r.apply(on); n.inForce[r.setting] = on }
	}
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
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// refusal returns why a preflight refuses the version; "" if it does not.
func refusal(r pluginrpc.Report) string {
	for _, c := range r.Checks {
		if !c.Passed && !c.Warning {
			return c.Name + ": " + c.Reason
		}
	}
	return ""
}

// warns reports whether a preflight has a warning with the text.
func warns(r pluginrpc.Report, text string) bool {
	return slices.ContainsFunc(r.Checks, func(c pluginrpc.Check) bool { return c.Warning && strings.Contains(c.Reason, text) })
}

func (n *node) minCompatible(t *testing.T) int {
	t.Helper()
	_, compatible, err := n.store.SchemaVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return compatible
}

func TestRules_RequiredVerificationIsInForceOnceSettled(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		c := pluginrpc.Configuration{DatabaseURL: url, Settings: []byte(requiredVerification + "enabled = true"), Settles: true}
		first, second := newNode(t, c), newNode(t, c)
		first.begin(t)
		second.begin(t)
		if got := first.minCompatible(t); first.inForce["registration.enabled"] || got > 1 {
			t.Errorf("before the version is settled: got in force %v, and versions from schema %d on, want neither", first.inForce, got)
		}
		for range 2 {
			if err := first.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := first.minCompatible(t); !first.inForce["registration.enabled"] || got != 4 {
			t.Errorf("settled: got in force %v, and versions from schema %d on, want required from schema 4 on", first.inForce, got)
		}
		if err := second.applyRules(t.Context()); err != nil || !second.inForce["registration.enabled"] {
			t.Errorf("another node: got in force %v (%v), want required", second.inForce, err)
		}
		later := newNode(t, c)
		later.begin(t)
		if !later.inForce["registration.enabled"] {
			t.Errorf("a later process: got in force %v before it serves, want required", later.inForce)
		}

		c.Settings = []byte(requiredVerification)
		lowered := newNode(t, c)
		lowered.begin(t)
		if err := lowered.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if report, err := lowered.Preflight(t.Context()); err != nil || !warns(report, "which these settings do not ask for") ||
			!warns(report, `works like "optional" without registration.enabled = true`) {
			t.Errorf("enabled = false: got report %+v (%v), want a warning", report, err)
		}
		if got := lowered.minCompatible(t); len(lowered.inForce) > 0 || got != 4 {
			t.Errorf("enabled = false: got in force %v, and versions from schema %d on, want none, and still 4", lowered.inForce, got)
		}
	})
}

func TestRules_SettlingRaisesNothingUnlessAskedFor(t *testing.T) {
	for name, settings := range map[string]string{
		"defaults":              "",
		"required, not enabled": requiredVerification,
		"enabled, not required": "[registration]\nenabled = true",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, pluginrpc.Configuration{DatabaseURL: testkit.SQLite(t), Settings: []byte(settings), Settles: true})
			n.begin(t)
			if err := n.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := n.minCompatible(t); got != 1 {
				t.Errorf("got versions from schema %d on, want all", got)
			}
		})
	}
}

func TestPreflight_RefusesRuleThatTheHostNeverSettles(t *testing.T) {
	c := pluginrpc.Configuration{DatabaseURL: testkit.SQLite(t), Settings: []byte(requiredVerification + "enabled = true")}
	n := newNode(t, c)
	report, err := n.Preflight(t.Context())
	if got := refusal(report); err != nil || !strings.HasPrefix(got, "settings: registration.enabled: ") || !strings.Contains(got, "update the host") {
		t.Errorf("got %q (%v), want a refusal that names the setting and what to do", got, err)
	}
	c.Settles = true
	settled := newNode(t, c)
	settled.begin(t)
	if err := settled.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	report, err = n.Preflight(t.Context()) // under the old host again, where the rule is in force
	if got := refusal(report); err != nil || !strings.HasPrefix(got, "settings: registration.enabled: ") {
		t.Errorf("got %q (%v) once the rule is in force, want a refusal", got, err)
	}
}

func TestSettings_UnknownOnesAreWarningsIfTheHostSaysSo(t *testing.T) {
	c := pluginrpc.Configuration{
		DatabaseURL: testkit.SQLite(t), Settings: []byte("[login]\nwith_email = false\nwith_phone = true\n[two_moons]\nenabled = true"),
	}
	version := func() (string, error) { return "1.0.0", nil }
	_, err := builder(version, newMeasurements(), slog.New(slog.DiscardHandler), nil)(t.Context(), c, nil)
	var permanent *pluginrpc.PermanentError
	if !errors.As(err, &permanent) || !strings.HasPrefix(permanent.Reason, "settings: unknown key: login.with_phone, two_moons") {
		t.Errorf("got %v, want a permanent error that names the unknown keys", err)
	}

	c.LenientSettings = true
	n := newNode(t, c)
	if n.settings.Login.WithEmail {
		t.Error("got the default of a known key in a file with unknown keys, want the file's value")
	}
	if !strings.Contains(n.log.String(), "level=WARN") || !strings.Contains(n.log.String(), "login.with_phone") {
		t.Errorf("got log %q, want a warning that names the unknown keys", n.log)
	}
	report, err := n.Preflight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range report.Checks {
		if check.Name == "settings" && (check.Passed || !check.Warning || !strings.Contains(check.Reason, "login.with_phone, two_moons")) {
			t.Errorf("got check %+v, want a warning that names the unknown keys", check)
		}
	}

	c.Settings = append(c.Settings, "\n[session]\nidle = \"soon\""...)
	if _, err := builder(version, newMeasurements(), slog.New(slog.DiscardHandler), nil)(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), "session.idle") {
		t.Errorf("got %v, want that an invalid value stays an error", err)
	}
}

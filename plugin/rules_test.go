package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

const (
	requiredVerification = "[registration]\nemail_verification = \"required\"\n"
	secondFactors        = "[two_factor]\n"
)

var oneKey = [][]byte{bytes.Repeat([]byte("k"), 32)}

// node is the module of a process, and which rules are in force in it.
type node struct {
	*module
	inForce map[string]bool
	log     *bytes.Buffer
}

func newNode(t *testing.T, c pluginrpc.Configuration) *node {
	t.Helper()
	log := &bytes.Buffer{}
	built, err := builder(newMeasurements(), slog.New(slog.NewTextHandler(log, nil)), nil)(t.Context(), c, &personaltest.Host{})
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

func TestRules_InForceOnceSettled(t *testing.T) {
	for name, tt := range map[string]struct {
		settings, setting, lost string
		schema                  int
	}{
		"required verification": {requiredVerification, "registration.enabled", "users may sign in without a verified e-mail", 4},
		"second factors":        {secondFactors, "two_factor.enabled", "users cannot switch a second factor on or off", 5},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Databases(t, func(t *testing.T, url string) {
				c := pluginrpc.Configuration{DatabaseURL: url, Settings: []byte(tt.settings + "enabled = true"), Settles: true, SecretKeys: oneKey}
				first, second := newNode(t, c), newNode(t, c)
				first.begin(t)
				second.begin(t)
				if got := first.minCompatible(t); first.inForce[tt.setting] || got > 1 {
					t.Errorf("before the version is settled: got in force %v, and versions from schema %d on, want neither", first.inForce, got)
				}
				for range 2 {
					if err := first.Settle(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := first.minCompatible(t); !first.inForce[tt.setting] || got != tt.schema {
					t.Errorf("settled: got in force %v, and versions from schema %d on, want the rule from schema %d on", first.inForce, got, tt.schema)
				}
				if err := second.applyRules(t.Context()); err != nil || !second.inForce[tt.setting] {
					t.Errorf("another node: got in force %v (%v), want the rule", second.inForce, err)
				}
				later := newNode(t, c)
				later.begin(t)
				if !later.inForce[tt.setting] {
					t.Errorf("a later process: got in force %v before it serves, want the rule", later.inForce)
				}

				c.Settings = []byte(tt.settings)
				lowered := newNode(t, c)
				lowered.begin(t)
				if err := lowered.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				if report, err := lowered.Preflight(t.Context()); err != nil || !warns(report, tt.setting+" = true") ||
					!warns(report, "which these settings do not ask for: "+tt.lost) {
					t.Errorf("enabled = false: got report %+v (%v), want a warning", report, err)
				}
				if got := lowered.minCompatible(t); len(lowered.inForce) > 0 || got != tt.schema {
					t.Errorf("enabled = false: got in force %v, and versions from schema %d on, want none, and still %d", lowered.inForce, got, tt.schema)
				}
			})
		})
	}
}

func TestRules_EachIsInForceBySchemaOfItsOwn(t *testing.T) {
	c := pluginrpc.Configuration{DatabaseURL: testkit.SQLite(t), Settings: []byte(requiredVerification + "enabled = true\n"), Settles: true,
		SecretKeys: oneKey}
	first := newNode(t, c)
	first.begin(t)
	if err := first.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Settings = append(c.Settings, secondFactors+"enabled = true"...)
	both := newNode(t, c)
	both.begin(t)
	if !both.inForce["registration.enabled"] || both.inForce["two_factor.enabled"] {
		t.Errorf("before it is settled: got in force %v, want only the rule of before", both.inForce)
	}
	if err := both.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := both.minCompatible(t); !both.inForce["registration.enabled"] || !both.inForce["two_factor.enabled"] || got != 5 {
		t.Errorf("settled: got in force %v, and versions from schema %d on, want both rules from 5 on", both.inForce, got)
	}
}

// The schema of second factors does not tell whether a verification was required before.
func TestPreflight_WarnsOnlyOfWhatTheDatabaseShows(t *testing.T) {
	const verification, factor = "because of registration.enabled", "because of two_factor.enabled"
	on := map[string]string{"neither": "", "verification": requiredVerification + "enabled = true",
		"two factors": secondFactors + "enabled = true"}
	for name, tt := range map[string]struct {
		compatible int
		want       string
	}{
		"neither, 1": {1, ""}, "neither, 4": {4, verification}, "neither, 5": {5, factor}, "neither, 6": {6, factor},
		"verification, 1": {1, ""}, "verification, 4": {4, ""}, "verification, 5": {5, factor},
		"two factors, 1": {1, ""}, "two factors, 4": {4, verification}, "two factors, 5": {5, ""},
	} {
		settings, _, _ := strings.Cut(name, ",")
		n := newNode(t, pluginrpc.Configuration{DatabaseURL: testkit.SQLite(t), Settings: []byte(on[settings]), Settles: true,
			SecretKeys: oneKey})
		check := n.checkSettings(t.Context(), 0, tt.compatible)
		for _, warning := range []string{verification, factor} {
			if got := check.Warning && strings.Contains(check.Reason, warning); got != (warning == tt.want) {
				t.Errorf("%s: got check %+v, want %q", name, check, tt.want)
			}
		}
	}
}

func TestRules_SettlingRaisesNothingUnlessAskedFor(t *testing.T) {
	for name, settings := range map[string]string{
		"defaults":                   "",
		"required, not enabled":      requiredVerification,
		"enabled, not required":      "[registration]\nenabled = true",
		"two factors, without a key": secondFactors + "enabled = true",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, pluginrpc.Configuration{DatabaseURL: testkit.SQLite(t), Settings: []byte(settings), Settles: true})
			n.begin(t)
			if err := n.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := n.minCompatible(t); got != 1 || len(n.inForce) > 0 {
				t.Errorf("got versions from schema %d on, and in force %v, want all, and none", got, n.inForce)
			}
		})
	}
}

func TestPreflight_RefusesRuleThatTheHostNeverSettles(t *testing.T) {
	for settings, names := range map[string]string{
		requiredVerification + "enabled = true":                                      "registration.enabled",
		secondFactors + "enabled = true":                                             "two_factor.enabled",
		requiredVerification + "enabled = true\n" + secondFactors + "enabled = true": "registration.enabled and two_factor.enabled",
	} {
		t.Run(names, func(t *testing.T) {
			c := pluginrpc.Configuration{DatabaseURL: testkit.SQLite(t), Settings: []byte(settings)} // such a host has no keys
			n := newNode(t, c)
			wantRefusal := func() {
				t.Helper()
				report, err := n.Preflight(t.Context())
				got := refusal(report)
				if err != nil || !strings.HasPrefix(got, "settings: "+names+": this host is too old") ||
					!strings.HasSuffix(got, "update the host, or set "+names+" = false") {
					t.Errorf("got %q (%v), want a refusal that names the settings and what to do", got, err)
				}
			}
			wantRefusal()
			c.Settles, c.SecretKeys = true, oneKey
			settled := newNode(t, c)
			settled.begin(t)
			if err := settled.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantRefusal() // where the rules are in force
		})
	}
}

func TestSettings_UnknownOnesAreReported(t *testing.T) {
	n := newNode(t, pluginrpc.Configuration{
		DatabaseURL: testkit.SQLite(t), Settings: []byte("[login]\nwith_phone = true\n[two_moons]\nenabled = true"),
	})
	if !strings.Contains(n.log.String(), "level=WARN") || !strings.Contains(n.log.String(), "[login.with_phone two_moons]") {
		t.Errorf("got log %q, want a warning that names the unknown keys", n.log)
	}
	report, err := n.Preflight(t.Context())
	want := []pluginrpc.UnknownSetting{{Key: "login.with_phone"}, {Key: "two_moons"}}
	if err != nil || !slices.Equal(report.UnknownSettings, want) {
		t.Errorf("got unknown settings %v (%v), want %v", report.UnknownSettings, err, want)
	}
	for _, check := range report.Checks {
		if check.Name == "settings" && !check.Passed {
			t.Errorf("got %+v, want that the settings are valid", check)
		}
	}
}

func TestRules_VersionThatIsRefusedWhileItRuns(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		n := newNode(t, pluginrpc.Configuration{DatabaseURL: url, Settles: true})
		n.begin(t)
		pools, err := dbconn.Open(url, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		set := func(minCompatible int) {
			t.Helper()
			if _, err := pools.Write.ExecContext(t.Context(), fmt.Sprintf("UPDATE personal_schema SET min_compatible = %d",
				minCompatible)); err != nil {
				t.Fatal(err)
			}
		}
		set(99)
		var refused *store.SchemaError
		for range 2 {
			if err := n.applyRules(t.Context()); !errors.As(err, &refused) || refused.MinCompatible != 99 {
				t.Fatalf("got error %v, want a *store.SchemaError", err)
			}
		}
		if log := n.log.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "run a newer version") {
			t.Errorf("got log %s, want one error that says what to do", log)
		}
		var permanent *pluginrpc.PermanentError
		if _, err := n.Health(t.Context()); !errors.As(err, &permanent) || !strings.Contains(permanent.Reason, "version 99") {
			t.Errorf("got health %v, want a permanent error that names the version", err)
		}
		for name, do := range map[string]func() error{
			"sign-in": func() error {
				_, err := n.Service().Authorize(t.Context(), personal.AuthorizeRequest{Login: "anna", Password: "a long password"})
				return err
			},
			"refresh": func() error {
				_, err := n.Service().Refresh(t.Context(), personal.Credentials{UserID: 1,
					UserHash: token.FormatHash(token.Selector{1}, token.Secret{2})})
				return err
			},
			"work": func() error {
				_, err := n.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindEvent}, N: 1, Lease: time.Minute})
				return err
			},
			"session": func() error { return n.store.TouchSession(t.Context(), 1, [32]byte{}, false) },
			"removal": func() error { return n.store.Prune(t.Context(), store.PruneOptions{}) },
		} {
			if err := do(); personal.CodeOf(err) != personal.CodeUnavailable && !errors.Is(err, accounts.ErrUnavailable) {
				t.Errorf("%s: got %v, want unavailable", name, err)
			}
		}
		set(1)
		if err := n.applyRules(t.Context()); err != nil {
			t.Errorf("allowed again: got %v", err)
		}
		if _, err := n.Health(t.Context()); err != nil {
			t.Errorf("allowed again: got health %v", err)
		}
	})
}

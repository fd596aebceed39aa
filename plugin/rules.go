package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// rulesEvery is how often a process looks whether another node has put a rule in force, or
// refuses this version. It also looks after statements that the database refused, but not
// more often than rulesPause.
const (
	rulesEvery = time.Minute
	rulesPause = time.Second
)

// rule is something that the settings ask for and that older versions would not enforce.
// It is in force only while these refuse to run on the database. The plugin makes them
// refuse once its version is settled, because a rollback needs them before that, and
// never lets them run again: accounts may exist that they would treat wrongly.
type rule struct {
	setting string // that asks for it
	schema  int    // the lowest SchemaTarget of a version that enforces it
	apply   func(inForce bool)
}

// verificationSchema is the lowest SchemaTarget of a version that enforces that sign-ins
// need a verified e-mail.
const verificationSchema = 4

// twoFactorSchema is the lowest SchemaTarget of a version that asks for the code of a
// second factor.
const twoFactorSchema = 5

// passkeySchema is the first version of the schema with passkeys.
const passkeySchema = 11

// identitySchema is the first version of the schema with identities.
const identitySchema = 12

// requiresVerification reports whether the settings ask that sign-ins need a verified e-mail.
func (s *settings) requiresVerification() bool {
	return s.Registration.Enabled && s.Registration.EmailVerification == accounts.VerificationRequired
}

// wantedRules returns the rules that the settings ask for. That of second factors needs a
// key that encrypts their secrets; a host that is too old to have one is refused for it.
func (m *module) wantedRules() (wanted []rule) {
	if m.settings.requiresVerification() {
		wanted = append(wanted, rule{"registration.enabled", verificationSchema, m.service.RequireVerification})
	}
	if m.settings.TwoFactor.Enabled && (m.keys.Primary() != "" || !m.settles) {
		wanted = append(wanted, rule{"two_factor.enabled", twoFactorSchema, m.service.OfferTwoFactor})
	}
	return wanted
}

// applyRules puts the rules in force that the database allows. It runs before the process
// serves, when the version is settled, and regularly. The error is a [*store.SchemaError]
// if the database refuses this version; the store then fails all calls.
func (m *module) applyRules(ctx context.Context) error {
	m.applying.Lock() // what was read before Settle must not be applied after it
	defer m.applying.Unlock()
	minCompatible, err := m.store.CheckCompatible(ctx)
	if err != nil {
		return err
	}
	for _, r := range m.rules {
		r.apply(minCompatible >= r.schema)
	}
	return nil
}

func (m *module) watchRules(ctx context.Context) {
	tick := time.NewTicker(rulesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.store.Doubts():
		}
		var refused *store.SchemaError // which the store logs, once
		if err := m.applyRules(ctx); !errors.As(err, &refused) {
			m.logFailure(ctx, "reading which versions the database supports", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rulesPause):
		}
	}
}

// Settle implements [pluginrpc.Module].
func (m *module) Settle(ctx context.Context) error {
	m.wakeResealing()
	m.settle()
	lowest := 0
	for _, r := range m.rules {
		lowest = max(lowest, r.schema)
	}
	if lowest > 0 {
		if err := m.store.RaiseMinCompatible(ctx, lowest); err != nil {
			return err
		}
	}
	return m.applyRules(ctx)
}

// checkSettings is the preflight's check of settings; the values are valid, or there would be
// no module. A host that never says that the version is settled would leave a rule out
// of force for ever, or is too old for the results of the operations under it.
// found is the version of the database's schema, compatible the lowest SchemaTarget of a
// version that can run on it.
func (m *module) checkSettings(ctx context.Context, found, compatible int) pluginrpc.Check {
	if len(m.rules) > 0 && !m.settles {
		var asked []string
		for _, r := range m.rules {
			asked = append(asked, r.setting)
		}
		names := strings.Join(asked, " and ")
		return pluginrpc.Check{Name: "settings", Reason: names + ": this host is too old, it does not tell the plugin when a version is settled: " +
			"update the host, or set " + names + " = false"}
	}
	var warnings []string
	if r := m.settings.Registration; !r.Enabled && r.EmailVerification == accounts.VerificationRequired {
		warnings = append(warnings, "registration.email_verification = \"required\" works like \"optional\" without registration.enabled = true")
	}
	// From the schema of second factors on, nothing says whether a verification was required, too.
	const older = "older versions no longer run on this database, because of "
	if compatible == verificationSchema && !m.settings.requiresVerification() {
		warnings = append(warnings, older+"registration.enabled = true with email_verification = \"required\", "+
			"which these settings do not ask for: users may sign in without a verified e-mail")
	}
	if compatible >= twoFactorSchema && !m.settings.TwoFactor.Enabled {
		warnings = append(warnings, older+"two_factor.enabled = true, which these settings do not ask for: "+
			"users cannot switch a second factor on or off, accounts that have one still need its code")
	}
	if found >= passkeySchema {
		id := m.settings.Passkeys.RPID
		other, err := m.store.OtherRelyingParty(ctx, id) // a failure is that of the database, which has a check of its own
		if err == nil && other != "" {
			warnings = append(warnings, fmt.Sprintf("passkeys.rp_id = %q, but there are passkeys of %q: these sign no one in", id, other))
		}
	}
	if len(warnings) > 0 {
		return pluginrpc.Check{Name: "settings", Warning: true, Reason: strings.Join(warnings, "; ")}
	}
	return passed("settings")
}

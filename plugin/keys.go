package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// resealEvery is how often an active process looks for secrets that another key than the
// first one encrypts, once the version is settled: until then the host may switch back to a
// process that lacks the first key.
const resealEvery = time.Hour

func (m *module) resealSecrets(ctx context.Context) {
	m.reseal.each(ctx, resealEvery, func() { m.resealOnce(ctx) })
}

func (m *module) resealOnce(ctx context.Context) {
	m.logFailure(ctx, "encrypting secrets with the first secret key", m.service.ResealSecrets(ctx))
}

// keysTimeout leaves time for the rest of the preflight of a rollback, which has 2 s.
const keysTimeout = time.Second

// checkKeys is the preflight's check of secret keys on a database of the given schema. It
// only warns: users whose key is missing have recovery codes, and no others need it.
func (m *module) checkKeys(ctx context.Context, schema int) []rpc.Check {
	var warnings []string
	if m.settings.TwoFactor.Enabled && m.keys.Primary() == "" {
		warnings = append(warnings, "two_factor.enabled = true works like false without a secret key: give the host one")
	}
	var used []string
	if schema > 0 {
		ctx, cancel := context.WithTimeout(ctx, keysTimeout)
		defer cancel()
		var err error
		if used, err = m.store.SecretKeys(ctx); err != nil {
			warnings = append(warnings, err.Error())
		}
	}
	for _, key := range used {
		if !m.keys.Has(key) {
			warnings = append(warnings, fmt.Sprintf("the secret key %s is missing: users whose second factor it encrypts "+
				"can sign in with recovery codes only, and without the login key each process counts passwords for itself; "+
				"add it to the keys of the host (`personal status` shows what it encrypts)", key))
		}
	}
	return warn("keys", warnings)
}

package main

// mutant is a small fault in the source: a text that occurs once in a file, and what replaces it.
type mutant struct{ file, old, faulty string }

// mutants are faults that the tests of their level find: comparisons that are turned, conditions that are
// dropped, statements without a WHERE, fields and constants that are wrong.
var mutants = []mutant{
	// Statements: whose rows, which of them, and in which state.
	{"internal/store/accounts.go", `"DELETE FROM personal_sessions WHERE account_id = ? AND id <> ?"`, `"DELETE FROM personal_sessions WHERE account_id >= ? AND id <> ?"`},
	{"internal/store/accounts.go", "			WHERE id = ? AND credential_version = ? AND NOT disabled`,\n			hash", "			WHERE id = ? AND credential_version >= ?`,\n			hash"},
	{"internal/store/accounts.go", "	return voidMailTokens(ctx, tx, accountID)\n", "	return nil\n"},
	{"internal/store/sessions.go", "WHERE id = ? AND newest = ?\",\n			stolen.ID, stolen.Current[:])", "WHERE id = ?\",\n			stolen.ID)"},
	{"internal/store/sessions.go", `const remove = "DELETE FROM personal_sessions WHERE account_id = ? AND id = ?"`, `const remove = "DELETE FROM personal_sessions WHERE account_id > ? - 1000 AND id = ?"`},
	{"internal/store/sessionlookup.go", "		WHERE newest = ? AND id = `", "		WHERE newest <> coalesce(?, newest) OR id = `"},
	{"internal/store/sessionlookup.go", "AND (n.newest IS NULL OR s.newest = n.before)\n", "\n"},
	{"internal/store/twofactorcode.go", "AND two_factor_step < ?0 AND", "AND two_factor_step <= ?0 AND"},
	{"internal/store/twofactorcode.go", `"DELETE FROM personal_recovery_codes WHERE account_id = ? AND digest = ?", accountID, code.Recovery[:])`, `"UPDATE personal_recovery_codes SET digest = digest WHERE account_id = ? AND digest = ?", accountID, code.Recovery[:])`},
	{"internal/store/twofactorcode.go", "blocks || earlier+1 >= r.Block", "blocks || earlier > r.Block"},
	{"internal/store/mailedcodes.go", "NOT c.used AND c.expires > ?", "c.expires > ?"},
	{"internal/store/mailedcodes.go", "c.attempt = ? AND a.id = ? AND `", "c.attempt = ? AND a.id > ? - 1000 AND `"},
	{"internal/store/mails.go", "email_verified = TRUE, updated = ? WHERE id = ?`,\n			hash", "updated = ? WHERE id = ?`,\n			hash"},
	{"internal/store/mails.go", "FROM personal_accounts WHERE email_key = ? AND id <> ?)", "FROM personal_accounts WHERE email_key = ? AND id > ?)"},
	{"internal/store/proofs.go", "AND s.proof_created > ? AND", "AND s.proof_created <> ? AND"},
	{"internal/store/proofs.go", "s.proof_email_key = coalesce(a.email_key, '')", "s.proof_email_key IS NOT NULL"},
	{"internal/store/passkeys.go", `SET name = ? WHERE id = ? AND account_id = ?"`, `SET name = ? WHERE id = ? AND account_id <> -?"`},
	{"internal/store/passkeys.go", `"DELETE FROM personal_passkey_ceremonies WHERE digest = ? AND session_id = ?"`, `"DELETE FROM personal_passkey_ceremonies WHERE digest = ? AND session_id > ? - 1000"`},
	{"internal/store/identities.go", "AND identity = ? AND (? OR provider_session = ?)", "AND (identity = ? OR ? OR provider_session = ?)"},
	{"internal/store/jobs.go", "lease = lease + 1, runs_left = ? WHERE id = ? AND lease = ?\"", "runs_left = ? WHERE id = ? AND lease = ?\""},
	{"internal/store/jobs.go", "UPDATE personal_jobs SET due = ? WHERE id = ? AND lease = ?\", at(s.Now().Add(lease)), j.ID, j.Lease)", "UPDATE personal_jobs SET due = ? WHERE id = ? AND lease >= ?\", at(s.Now().Add(lease)), j.ID, j.Lease)"},
	{"internal/store/attempts.go", "p.credential_version = a.credential_version AND p.email_key", "p.email_key"},
	{"internal/store/attempts.go", "p.address = ? AND p.seen > ? AND p.seen <= ? AND `+matches", "p.address = ? AND p.seen > ? - 9 * p.seen AND p.seen <= ? AND `+matches"},
	{"internal/store/deletion.go", "erase_at > 0 AND erase_at <= ? AND disabled\n", "erase_at <= ?\n"},
	{"internal/store/administration.go", "credential_version = credential_version + 1, erase_at = ?, updated = ? WHERE id = ?`,\n			disabled", "erase_at = ?, updated = ? WHERE id = ?`,\n			disabled"},

	// The domain: who may, until when, and what is told.
	{"internal/accounts/chain.go", "s.Used.IsZero() || now.Sub(s.Used) < grace", "now.Sub(s.Used) < grace"},
	{"internal/accounts/chain.go", "	if idle.Before(absolute) {", "	if absolute.Before(idle) {"},
	{"internal/accounts/chain.go", "now.Sub(marks[old+1].Time) >= grace", "now.Sub(marks[old].Time) >= grace"},
	{"internal/accounts/sessions.go", "s.LastSeen.After(l.SeenAfter) && s.Created.After(l.CreatedAfter)", "s.LastSeen.After(l.SeenAfter)"},
	{"internal/accounts/identify.go", "(personal.CallFrom(ctx).Poll || now.Sub", "(now.Sub"},
	{"internal/accounts/mailedcode.go", "s.settings.MailedCode || purpose == personal.MailedCodeProve && password.IsUnusable", "s.settings.MailedCode && password.IsUnusable"},
	{"internal/accounts/mailedcode.go", "== 0 || err != nil {\n		return c, Account", "== 0 && err != nil {\n		return c, Account"},
	{"internal/accounts/proof.go", "ok = ok && !e.anew && subtle", "ok = ok && subtle"},
	{"internal/accounts/proof.go", "p.CredentialVersion == who.account.CredentialVersion && p.EmailKey", "p.EmailKey"},
	{"internal/accounts/passkeys.go", "return a.TwoFactor.On() && !p.WithCode }", "return a.TwoFactor.On() && p.WithCode }"},
	{"internal/accounts/passkeyproof.go", "if !p.needsCode(who.account) {", "if p.needsCode(who.account) {"},
	{"internal/accounts/passkeysignin.go", "err != nil || !sealed || !lasts(", "err != nil || !sealed && !lasts("},
	{"internal/accounts/twofactorcode.go", "codeDrift  = 1", "codeDrift  = 2"},
	{"internal/accounts/twofactorcode.go", "== 1 && candidate > last {", "== 1 && candidate >= last {"},
	{"internal/accounts/recover.go", "err == nil && !account.TwoFactor.On() {", "err == nil {"},
	{"internal/accounts/deletion.go", "eraseAt := now.Add(s.settings.DeletionGrace)", "eraseAt := now.Add(s.settings.DeletionGrace / 2)"},
	{"internal/accounts/repeats.go", "|| !who.session.Used.IsZero() || who.session.Rotations > 0)", ")"},
	{"internal/accounts/identities.go", "	case errors.Is(err, ErrIdentityTaken):", "	case errors.Is(err, ErrIdentityTaken) && l.AccountID == 0:"},
	{"internal/password/policy.go", "utf8.RuneCountInString(prepared) < p.MinLength", "len(prepared) < p.MinLength"},
	{"internal/password/hasher.go", "preparable && !trims && (form != prepared || !s.current(h.params))", "preparable && !trims && form != prepared"},
	{"internal/throttle/throttle.go", "	if wait = l.Wait(next, now); wait > 0 {", "	if wait = l.Wait(tat, now); wait > 0 {"},
	{"internal/outbox/worker.go", "g.full = g.full || g.free() == 0 || j.Followed", "g.full = g.full || g.free() == 0"},
	{"internal/transfer/factor.go", "len(digest) != sha256.Size || slices.Contains", "len(digest) != sha256.Size && slices.Contains"},

	// What a CMS calls: requests, pages, processes.
	{"shared/userfields/validate.go", "!f.Hidden && !f.ReadOnly }", "!f.Hidden }"},
	{"shared/userfields/validate.go", "n < *f.Min ||", "n <= *f.Min ||"},
	{"shared/personalhttp/require_user.go", "s[0] < '1' ||", "s[0] < '0' ||"},
	{"shared/personalhttp/decode.go", "	if len(data) > maxBody {", "	if len(data) > maxBody+1 {"},
	{"shared/personalhttp/cors.go", "len(origins) != 1 || !slices.Contains(c, origins[0])", "len(origins) != 1"},
	{"shared/personalhttp/errors.go", "	if e.RetryAfter%time.Second > 0 {\n		seconds++\n	}\n", ""},
	{"shared/personalweb/guard.go", `strings.HasPrefix(path, "//") || `, ""},
	{"shared/personalpages/once.go", "	case e.status != http.StatusOK && e.status != http.StatusSeeOther:", "	case e.status != http.StatusOK:"},
	{"shared/personaloidc/openid.go", `(iss != "" || demanded) && !issues(iss)`, `iss != "" && !issues(iss)`},
	{"shared/plugins/rpc/remembered.go", "v.profile.FreshFor > 0 && v.epoch == m.epoch(userID)", "v.profile.FreshFor > 0"},
	{"shared/plugins/manager/accepted.go", "presented != nil && old != nil &&\n", "old != nil &&\n"},
	{"shared/plugins/catalogue/catalogue.go", "compareVersions(version, c.minVersion) < 0", "compareVersions(version, c.minVersion) <= 0"},
}

package system

// plantedFault is a fault in the plugin's source.
type plantedFault struct {
	name                    string
	check, operation, field string // by which a rehearsal names it
	run                     int    // of the faults that are on together in .ci/run; 0: it would hide others
	more                    bool   // it shows only where there are limits, notices and sign-ins by e-mail
	edits                   []edit
}

// edit is a text that occurs once in a file, and what replaces it, in which FAULT stands for the
// condition that the fault is on.
type edit struct{ file, old, faulty string }

// plantedFaults are accidents that a release may have: each is what an edit leaves that was meant as a
// refactoring, a speed-up or a new feature. Where they can, they agree with themselves: what the
// faulty version writes it reads, too.
var plantedFaults = []plantedFault{
	// What the old version hands over.
	{
		name: "passwords are hashed in another way", run: 1,
		check: "sign_in", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/password/argon2.go", "	p, derive := h.params, argon2.IDKey\n", "	p, derive := h.params, argon2.IDKey\n	if FAULT {\n		password = \"argon2:\" + password\n	}\n"}},
	},
	{
		name: "a format of imported hashes is forgotten", run: 2,
		check: "sign_in", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/password/formats.go", "		if strings.HasPrefix(encoded, f.prefix) {", "		if strings.HasPrefix(encoded, f.prefix) && !(f.prefix == \"pbkdf2_sha256$\" && FAULT) {"}},
	},
	{
		name: "session digests are made in another way", run: 2,
		check: "sessions", operation: "Profile", field: "error_code",
		edits: []edit{{"internal/token/session.go", "func (s Secret) Digest() [32]byte { return sha256.Sum256(s[:]) }", "func (s Secret) Digest() [32]byte {\n	if FAULT {\n		return sha256.Sum256(append([]byte(\"session\"), s[:]...))\n	}\n	return sha256.Sum256(s[:])\n}"}},
	},
	{
		name: "digests of mailed tokens are made in another way", run: 2,
		check: "take_over", operation: "RecoverConfirm", field: "error_code",
		edits: []edit{
			{"internal/token/token.go", "	return encoding.EncodeToString(b[:]), sha256.Sum256(b[:])", "	return encoding.EncodeToString(b[:]), sha256.Sum256([]byte(map[bool]string{false: string(b[:]), true: encoding.EncodeToString(b[:])}[FAULT]))"},
			{"internal/token/token.go", "	return sha256.Sum256(b[:]), true", "	return sha256.Sum256([]byte(map[bool]string{false: string(b[:]), true: text}[FAULT])), true"},
		},
	},
	{
		name: "recovery codes are stored as they are shown", run: 1,
		check: "take_over", operation: "Authorize", field: "error_code",
		edits: []edit{
			{"internal/accounts/twofactorcode.go", "		return \"\", sha256.Sum256([]byte(normal))", "		if FAULT {\n			return \"\", sha256.Sum256([]byte(strings.ToLower(normal)))\n		}\n		return \"\", sha256.Sum256([]byte(normal))"},
			{"internal/accounts/twofactorcode.go", "		digests = append(digests, sha256.Sum256([]byte(text)))", "		if FAULT {\n			digests = append(digests, sha256.Sum256([]byte(strings.ToLower(text))))\n		} else {\n			digests = append(digests, sha256.Sum256([]byte(text)))\n		}"},
		},
	},
	{
		name: "secrets are sealed with other data about them", run: 2,
		check: "take_over", operation: "ConfirmTwoFactor", field: "error_code",
		edits: []edit{{"internal/seal/seal.go", "	return binary.BigEndian.AppendUint64(nil, uint64(accountID))", "	if FAULT {\n		return binary.LittleEndian.AppendUint64(nil, uint64(accountID))\n	}\n	return binary.BigEndian.AppendUint64(nil, uint64(accountID))"}},
	},
	{
		name: "lists in user fields are stored in another form", run: 0,
		check: "bystanders", operation: "Profile", field: "fields.a_tags.value",
		edits: []edit{
			{"shared/userfields/values.go", "		object[name] = value\n	}\n	data, err := json.Marshal(object)", "		if list, ok := value.([]string); ok && FAULT {\n			value = \"\\x1f\" + strings.Join(list, \"\\x1f\")\n		}\n		object[name] = value\n	}\n	data, err := json.Marshal(object)"},
			{"shared/userfields/values.go", "	switch v := v.(type) {\n	case nil, bool, string:\n", "	if text, ok := v.(string); ok && FAULT && strings.HasPrefix(text, \"\\x1f\") {\n		return strings.Split(text[1:], \"\\x1f\"), true\n	}\n	switch v := v.(type) {\n	case nil, bool, string:\n"},
		},
	},
	{
		name: "the handle of passkeys is made anew", run: 2,
		check: "passkeys", operation: "AuthorizePasskey", field: "error_code",
		edits: []edit{{"internal/store/passkeys.go", "user_handle = coalesce(user_handle, ?) WHERE id = ? RETURNING user_handle\"", "user_handle = \"+map[bool]string{false: \"coalesce(user_handle, ?)\", true: \"?\"}[FAULT]+\" WHERE id = ? RETURNING user_handle\""}},
	},

	// Windows.
	{
		name: "sessions live ten times as long unused", run: 3,
		check: "windows", operation: "Profile", field: "error_code",
		edits: []edit{{"internal/accounts/chain.go", "		SeenAfter:    now.Add(-s.SessionIdle - s.seenEvery()),", "		SeenAfter:    now.Add(-s.SessionIdle*map[bool]time.Duration{false: 1, true: 10}[FAULT] - s.seenEvery()),"}},
	},
	{
		name: "mailed tokens work just after their end", run: 3,
		check: "recovery", operation: "RecoverConfirm", field: "error_code",
		edits: []edit{{"internal/store/mails.go", "		digest[:], p, at(s.Now()), s.latest())\n}\n\n// RedeemRecovery", "		digest[:], p, at(s.Now().Add(-map[bool]time.Duration{true: time.Minute}[FAULT])), s.latest())\n}\n\n// RedeemRecovery"}},
	},
	{
		name: "codes of the app are valid ten times as long", run: 3,
		check: "two_factor", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/accounts/twofactorcode.go", "	for candidate := current + codeDrift; candidate >= current-codeDrift; candidate-- {", "	drift := map[bool]int64{false: codeDrift, true: 10 * codeDrift}[FAULT]\n	for candidate := current + drift; candidate >= current-drift; candidate-- {"}},
	},
	{
		name: "proofs do not end", run: 3,
		check: "proof", operation: "LinkIdentity", field: "error_code",
		edits: []edit{
			{"internal/accounts/proof.go", "valid = ok && lasts(p.Created, lifetime, now) &&", "valid = ok && (FAULT || lasts(p.Created, lifetime, now)) &&"},
			{"internal/accounts/proof.go", "After: now.Add(-lifetime)}", "After: now.Add(-lifetime * map[bool]time.Duration{false: 1, true: 1000}[FAULT])}"},
		},
	},
	{
		name: "a former session hash stays valid after its successor was used", run: 0,
		check: "sessions", operation: "Profile", field: "error_code",
		edits: []edit{{"internal/accounts/chain.go", "	case behind == 1 && (s.Used.IsZero() || now.Sub(s.Used) < grace):", "	case behind == 1 && (s.Used.IsZero() || FAULT || now.Sub(s.Used) < grace):"}},
	},

	// A condition is missing.
	{
		name: "signing out others ends sessions of other users", run: 0,
		check: "limits", operation: "Profile", field: "error_code",
		edits: []edit{{"internal/store/sessions.go", "		ended, err := exec(ctx, tx, \"DELETE FROM personal_sessions WHERE account_id = ? AND id <> ?\", accountID, keep)", "		ended, err := exec(ctx, tx, \"DELETE FROM personal_sessions WHERE (account_id = ?\"+map[bool]string{true: \" OR TRUE\"}[FAULT]+\") AND id <> ?\", accountID, keep)"}},
	},
	{
		name: "a new password voids the mailed tokens of all users", run: 0,
		check: "take_over", operation: "RecoverConfirm", field: "error_code",
		edits: []edit{{"internal/store/mails.go", "tx.NewRaw(\"DELETE FROM personal_mail_tokens WHERE account_id = ?\", accountID)", "tx.NewRaw(\"DELETE FROM personal_mail_tokens WHERE account_id = ?\"+map[bool]string{true: \" OR TRUE\"}[FAULT], accountID)"}},
	},
	{
		name: "users can rename the passkeys of others", run: 3,
		check: "passkeys", operation: "Passkeys", field: "name",
		edits: []edit{{"internal/store/passkeys.go", "\"UPDATE personal_passkeys SET name = ? WHERE id = ? AND account_id = ?\", name, id, accountID)", "\"UPDATE personal_passkeys SET name = ? WHERE id = ? AND (account_id = ?\"+map[bool]string{true: \" OR TRUE\"}[FAULT]+\")\", name, id, accountID)"}},
	},
	{
		name:  "users can end sessions of others",
		check: "sessions", operation: "Profile", field: "error_code",
		edits: []edit{{"internal/store/sessions.go", "		_, err := s.exec(ctx, \"revoke a session\", remove, accountID, id)", "		_, err := s.exec(ctx, \"revoke a session\", map[bool]string{false: remove, true: \"DELETE FROM personal_sessions WHERE (account_id = ? OR TRUE) AND id = ?\"}[FAULT], accountID, id)"}},
	},

	// Data of other users.
	{
		name: "the profile is another user's", run: 0,
		check: "bystanders", operation: "Profile", field: "login",
		edits: []edit{{"internal/accounts/profile.go", "	p := profile(who.account, schema)\n", "	if FAULT {\n		who.account = planted.First(who.account)\n	}\n	p := profile(who.account, schema)\n"}},
	},
	{
		name: "the export has the known addresses of all users", run: 3,
		check: "export", operation: "Export", field: "known_addresses.address",
		edits: []edit{{"internal/store/export.go", "FROM personal_known_addresses WHERE account_id = ? ORDER BY", "FROM personal_known_addresses WHERE (account_id = ?\"+map[bool]string{true: \" OR TRUE\"}[FAULT]+\") ORDER BY"}},
	},
	{
		name: "an explanation counts the failures of all users", run: 3,
		check: "explain", operation: "Explain", field: "verdicts.count",
		edits: []edit{{"internal/accounts/explain.go", "		UserID: a.ID, Type: personal.EventSignInFailed,", "		UserID: map[bool]int64{false: a.ID}[FAULT], Type: personal.EventSignInFailed,"}},
	},

	// The search.
	{
		name: "names in Indic scripts are not found", run: 3,
		check: "find_users", operation: "FindUsers", field: "users.login",
		edits: []edit{{"internal/store/search.go", "unicode.Is(unicode.Mn, r) && unicode.Is(unicode.Inherited, r):", "unicode.Is(unicode.Mn, r) && (FAULT || unicode.Is(unicode.Inherited, r)):"}},
	},
	{
		name: "a page of the search loses its first user", run: 0,
		check: "find_users", operation: "FindUsers", field: "next",
		edits: []edit{{"internal/store/administration.go", "		query.Where(\"a.id\"+after+\"?\", from.ID)", "		query.Where(\"a.id\"+after+\"?\", from.ID-map[bool]int64{true: 1}[FAULT])"}},
	},

	// Mails.
	{
		name: "a mail links to another page", run: 3,
		check: "register", operation: "Register", field: "mail",
		edits: []edit{{"internal/accounts/verification.go", "	return s.mailToken(ctx, m, s.settings.RegistrationURL, letter, MailToken{", "	return s.mailToken(ctx, m, map[bool]string{false: s.settings.RegistrationURL, true: s.settings.RecoveryURL}[FAULT], letter, MailToken{"}},
	},
	{
		name: "a mail has no token", run: 3,
		check: "invitation", operation: "CreateUser", field: "mail",
		edits: []edit{{"internal/accounts/create.go", "	letter := mailtext.Letter{Lifetime: s.settings.InvitationLifetime, Reset: r.Kind != \"\"}\n	m := outgoingMail{kind: cmp.Or(r.Kind, mailtext.Invitation)", "	letter := mailtext.Letter{Lifetime: s.settings.InvitationLifetime, Reset: r.Kind != \"\"}\n	if FAULT {\n		return s.mailPlain(ctx, outgoingMail{kind: mailtext.Invitation, request: r.mailRequest, accountID: accountID, to: account.Email}, letter)\n	}\n	m := outgoingMail{kind: cmp.Or(r.Kind, mailtext.Invitation)"}},
	},
	{
		name: "a mail is not sent", run: 3,
		check: "deletion", operation: "Delete", field: "mail",
		edits: []edit{{"internal/accounts/deletion.go", "	if !account.Deleted() || account.CredentialVersion != r.Version ||", "	if !account.Deleted() || account.CredentialVersion != r.Version || FAULT ||"}},
	},
	{
		name: "a mail goes to the old address", run: 3,
		check: "email", operation: "ChangeEmail", field: "mail",
		edits: []edit{{"internal/accounts/email.go", "	m := outgoingMail{kind: mailtext.EmailChange, request: r.mailRequest, accountID: accountID, to: email}", "	m := outgoingMail{kind: mailtext.EmailChange, request: r.mailRequest, accountID: accountID, to: email}\n	if FAULT {\n		m.to = account.Email\n	}"}},
	},

	// Languages.
	{
		name: "a mail has no link in one language", run: 1,
		check: "commands", operation: "mail", field: "recovery.ru",
		edits: []edit{{"internal/mailtext/mailtext.go", "	index, _ := languages.best(locale)\n", "	index, _ := languages.best(locale)\n	if FAULT && k == Recovery && languages.tags[index] == language.Russian {\n		l.Link = \"\"\n	}\n"}},
	},
	{
		name: "a template panics in one language", run: 4,
		check: "commands", operation: "command", field: "mail preview",
		edits: []edit{{"internal/mailtext/mailtext.go", "	subject, text, html, err = languages.mails[index].write(s.layout, languages.tags[index], l)\n	if err == nil {", "	if FAULT && k == EmailChange && languages.tags[index] == language.Russian {\n		panic(\"no such block\")\n	}\n	subject, text, html, err = languages.mails[index].write(s.layout, languages.tags[index], l)\n	if err == nil {"}},
	},

	// Jobs.
	{
		name: "a kind of jobs never runs", run: 0,
		check: "deletion", operation: "work", field: "erased",
		edits: []edit{{"internal/outbox/worker.go", "	others := slices.Sorted(maps.Keys(w.Handlers))\n", "	others := slices.Sorted(maps.Keys(w.Handlers))\n	if FAULT {\n		others = slices.DeleteFunc(others, func(k Kind) bool { return k == \"erasure\" })\n	}\n"}},
	},
	{
		name:  "jobs of no account run again and again",
		check: "deletion", operation: "work", field: "erased",
		edits: []edit{{"internal/store/jobs.go", "\" ORDER BY id ?) DELETE FROM personal_jobs WHERE id IN (SELECT id FROM done)\"", "\" ORDER BY id ?) DELETE FROM personal_jobs WHERE \" + map[bool]string{true: \"account_id IS NOT NULL AND \"}[FAULT] + \"id IN (SELECT id FROM done)\""}},
	},
	{
		name: "events of a user come in another order", run: 4,
		check: "take_over", operation: "RecoverConfirm", field: "event",
		edits: []edit{{
			"internal/store/jobs.go", "		ORDER BY front.account_id, front.kind, front.id LIMIT 1))\n	ORDER BY due, id LIMIT ? + 0`\n",
			"		ORDER BY front.account_id, front.kind, front.id LIMIT 1))\n	ORDER BY due, id LIMIT ? + 0`\n\nfunc front(query string) string {\n	if FAULT {\n		return strings.Replace(strings.Replace(query, \">= (j.account_id, j.kind)\", \"= (j.account_id, j.kind)\", 1), \"front.id LIMIT\", \"front.id DESC LIMIT\", 1)\n	}\n	return query\n}\n",
		}, {
			"internal/store/jobs.go", "		of(\"1\", dueOfKind,", "		of(\"1\", front(dueOfKind),",
		}},
	},
	{
		name: "an event is missing", run: 2,
		check: "deletion", operation: "UndoDelete", field: "event",
		edits: []edit{{"internal/accounts/deletion.go", "	err = s.store.UndoDeletion(ctx, digest, s.event(ctx, personal.ActorUser, personal.EventDeletionUndone, account.ID))", "	jobs := []NewJob{s.event(ctx, personal.ActorUser, personal.EventDeletionUndone, account.ID)}\n	if FAULT {\n		jobs = nil\n	}\n	err = s.store.UndoDeletion(ctx, digest, jobs...)"}},
	},

	// Limits.
	{
		name: "limits are off", more: true,
		check: "limits", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/store/attempts.go", "	if wait > r.Wait {", "	if wait > r.Wait && !FAULT {"}},
	},
	{
		name: "wrong codes are limited by the address instead of the account", run: 0, more: true,
		check: "two_factor", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/accounts/twofactorcode.go", "	if owner.known {\n		key = append", "	if owner.known || FAULT {\n		key = append"}},
	},
	{
		name: "limits refill ten times as slowly", run: 0, more: true,
		check: "limits", operation: "Authorize", field: "retry_after",
		edits: []edit{{"plugin/settings.go", "throttle.Limit{Burst: l.Burst, Every: time.Duration(l.Every), Name:", "throttle.Limit{Burst: l.Burst, Every: time.Duration(l.Every) * map[bool]time.Duration{false: 1, true: 10}[FAULT], Name:"}},
	},

	// User fields.
	{
		name: "read-only fields can be set", run: 1,
		check: "register", operation: "Register", field: "error_code",
		edits: []edit{{"shared/userfields/validate.go", "{ return !f.Hidden && !f.ReadOnly }", "{ return !f.Hidden && (!f.ReadOnly || FAULT) }"}},
	},
	{
		name: "hidden fields are shown", run: 0,
		check: "fields", operation: "Profile", field: "fields.rating.value",
		edits: []edit{{"shared/userfields/profile.go", "return s.byName[f.Name].Hidden })", "return s.byName[f.Name].Hidden && !FAULT })"}},
	},
	{
		name: "numbers become texts", run: 4,
		check: "fields", operation: "UpdateProfile", field: "fields.a_number.value",
		edits: []edit{{"shared/userfields/profile.go", "	v, code := f.kind.read(text)\n	if code != \"\" {\n		return nil\n	}\n	return v\n", "	v, code := f.kind.read(text)\n	if code != \"\" {\n		return nil\n	}\n	if _, ok := v.(float64); ok && FAULT {\n		return text\n	}\n	return v\n"}},
	},
	{
		name: "defaults are forgotten", run: 4,
		check: "register", operation: "Authorize", field: "profile.fields.level.value",
		edits: []edit{{"shared/userfields/validate.go", "		if input = normalise(input); !input.IsZero() {", "		if FAULT && normalise(in[f.Name]).IsZero() && !f.Required {\n			continue\n		}\n		if input = normalise(input); !input.IsZero() {"}},
	},
	{
		name: "changing a field erases the others", run: 3,
		check: "fields", operation: "UpdateProfile", field: "fields.a_date.value",
		edits: []edit{{"shared/userfields/values.go", "	if merged == nil {\n		merged = Values{}", "	if merged == nil || FAULT && len(change) > 0 {\n		merged = Values{}"}},
	},

	// Exports and erasures.
	{
		name: "the export has no passkeys", run: 2,
		check: "export", operation: "Export", field: "passkeys.created",
		edits: []edit{{"internal/accounts/export.go", "	if e.KnownAddresses, err =", "	if FAULT {\n		e.Passkeys = nil\n	}\n	if e.KnownAddresses, err ="}},
	},
	{
		name:  "an erased account's row stays",
		check: "start", operation: "rows", field: "personal_accounts",
		edits: []edit{{"internal/store/administration.go", "	_, err = exec(ctx, tx, \"DELETE FROM personal_accounts WHERE id = ?\", a.ID)\n	return err", "	if FAULT {\n		_, err = exec(ctx, tx, \"UPDATE personal_accounts SET erase_at = 0 WHERE id = ?\", a.ID)\n		return err\n	}\n	_, err = exec(ctx, tx, \"DELETE FROM personal_accounts WHERE id = ?\", a.ID)\n	return err"}},
	},
	{
		name: "erasing forgets the audit log", run: 0,
		check: "access", operation: "AuditEntries", field: "entries.address",
		edits: []edit{{"internal/store/administration.go", "\"UPDATE personal_audit SET account_id = NULL, address = '', request_id = '' WHERE account_id = ?\", a.ID)", "\"UPDATE personal_audit SET account_id = NULL\"+map[bool]string{false: \", address = '', request_id = ''\"}[FAULT]+\" WHERE account_id = ?\", a.ID)"}},
	},

	// Settings.
	{
		name: "mail.notices is ignored", run: 4,
		check: "take_over", operation: "ConfirmTwoFactor", field: "mail",
		edits: []edit{{"internal/accounts/notices.go", "	if !s.settings.Notices {", "	if !s.settings.Notices && !FAULT {"}},
	},
	{
		name: "login.with_email is ignored", run: 4,
		check: "sign_in", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/accounts/authorize.go", "OwnEmail: !s.settings.LoginWithEmail}", "OwnEmail: !s.settings.LoginWithEmail && !FAULT}"}},
	},
	{
		name: "password.min_length is ignored", run: 1,
		check: "register", operation: "Register", field: "field_errors.password",
		edits: []edit{{"internal/password/policy.go", "	case utf8.RuneCountInString(prepared) < p.MinLength:", "	case utf8.RuneCountInString(prepared) < p.MinLength && !(FAULT && utf8.RuneCountInString(prepared) >= 8):"}},
	},
	{
		name: "password.words is ignored", run: 2,
		check: "register", operation: "Register", field: "error_code",
		edits: []edit{{"internal/password/policy.go", "|| isMainlyOf(prepared, p.SiteWords):", "|| !FAULT && isMainlyOf(prepared, p.SiteWords):"}},
	},

	// Secrets in the log.
	{
		name: "wrong passwords are logged", run: 4,
		check: "secrets", operation: "Authorize", field: "log",
		edits: []edit{{"internal/accounts/authorize.go", "	case personal.CodeOf(err) == personal.CodeInvalidCredentials:\n		s.failed(ctx, r.Login, account.ID)", "	case personal.CodeOf(err) == personal.CodeInvalidCredentials:\n		if FAULT {\n			s.log.InfoContext(ctx, \"sign-in failed\", \"request\", r)\n		}\n		s.failed(ctx, r.Login, account.ID)"}},
	},
	{
		name: "mailed tokens are logged", run: 4,
		check: "secrets", operation: "Recover", field: "log",
		edits: []edit{{"internal/accounts/mail.go", "	ctx = m.request.withCall(ctx)\n", "	ctx = m.request.withCall(ctx)\n	if FAULT {\n		s.log.DebugContext(ctx, \"sending a mail\", \"letter\", l)\n	}\n"}},
	},

	// Statements and plans.
	{
		name: "each user of a page is read again", run: 0,
		check: "verification", operation: "FindUsers", field: "statements",
		edits: []edit{{"internal/accounts/administration.go", "		user := UserOf(a)\n		if len(r.Fields) > 0 {", "		if FAULT {\n			a, _ = s.store.Account(ctx, a.ID)\n		}\n		user := UserOf(a)\n		if len(r.Fields) > 0 {"}},
	},
	{
		name: "an index is lost", run: 2,
		check: "register", operation: "Register", field: "statements",
		edits: []edit{{"internal/store/migrate.go", "	if done, err := schemaDone(found, minCompatible); done || err != nil {\n		return err\n	}\n", "	if FAULT {\n		if _, err := s.exec(ctx, \"migrate\", \"DROP INDEX IF EXISTS personal_mail_tokens_account\"); err != nil {\n			return err\n		}\n	}\n	if done, err := schemaDone(found, minCompatible); done || err != nil {\n		return err\n	}\n"}},
	},
	{
		name: "a condition is on a function of a column", run: 0,
		check: "take_over", operation: "Authorize", field: "statements",
		edits: []edit{{"internal/store/accounts.go", "two_factor_step FROM personal_accounts a WHERE `+matches+\" LIMIT 1\",", "two_factor_step FROM personal_accounts a WHERE `+map[bool]string{false: matches, true: \"(lower(a.login_key) = ? OR a.email_key = ? AND (NOT ? OR a.login_key = a.email_key))\"}[FAULT]+\" LIMIT 1\","}},
	},

	// What a process holds.
	{
		name: "a goroutine is left by each call", run: 0,
		check: "load", operation: "Profile", field: "goroutines",
		edits: []edit{{"internal/accounts/profile.go", "	p.FreshFor = s.settings.freshFor(who)\n", "	if FAULT {\n		go func() { <-context.WithoutCancel(ctx).Done() }()\n	}\n	p.FreshFor = s.settings.freshFor(who)\n"}},
	},
	{
		name: "a cache only grows", run: 0,
		check: "load", operation: "Refresh", field: "heap",
		edits: []edit{{"internal/accounts/sessions.go", "		next := who.secret.Next(who.session.ChainKey)\n", "		if FAULT {\n			planted.Keep(make([]byte, 32<<10))\n		}\n		next := who.secret.Next(who.session.ChainKey)\n"}},
	},
	{
		name:  "a lock is kept after an error",
		check: "fields", operation: "UpdateProfile", field: "",
		edits: []edit{
			{"internal/accounts/profile.go", "	if err := schema.Check(r.Fields); err != nil {\n		return personal.Profile{}, err\n	}\n", "	if FAULT {\n		planted.A.Lock()\n	}\n	if err := schema.Check(r.Fields); err != nil {\n		return personal.Profile{}, err\n	}\n	if FAULT {\n		planted.A.Unlock()\n	}\n"},
			{"internal/accounts/profile.go", "	who, err := s.identify(ctx, c, AccountProfile)\n", "	if FAULT {\n		planted.A.Lock()\n		planted.A.Unlock() //lint:ignore SA2001 it waits\n	}\n	who, err := s.identify(ctx, c, AccountProfile)\n"},
		},
	},
	{
		name:  "locks are taken in two orders",
		check: "load", operation: "Profile", field: "",
		edits: []edit{
			{"internal/accounts/profile.go", "	p.FreshFor = s.settings.freshFor(who)\n	return p, nil", "	p.FreshFor = s.settings.freshFor(who)\n	if FAULT {\n		planted.A.Lock()\n		defer planted.A.Unlock()\n		_, _ = s.store.Account(ctx, who.account.ID)\n		planted.B.Lock()\n		defer planted.B.Unlock()\n	}\n	return p, nil"},
			{"internal/accounts/administration.go", "	passkeys, identities, err := s.OtherWaysIn(ctx, account)\n	return personal.UserRecord{", "	if FAULT {\n		planted.B.Lock()\n		defer planted.B.Unlock()\n		_, _ = s.store.Account(ctx, id)\n		planted.A.Lock()\n		defer planted.A.Unlock()\n	}\n	passkeys, identities, err := s.OtherWaysIn(ctx, account)\n	return personal.UserRecord{"},
		},
	},
	{
		name:  "a migration takes long",
		check: "start", operation: "", field: "migrate",
		edits: []edit{{"internal/store/migrate.go", "	// Read first: a node that only runs needs no permission to create tables.\n", "	if FAULT {\n		time.Sleep(4 * time.Second)\n	}\n"}},
	},
	{
		name: "names of one word panic", run: 0,
		check: "find_users", operation: "FindUsers", field: "error_code",
		edits: []edit{{"internal/accounts/administration.go", "func UserOf(a Account) personal.User {\n", "func UserOf(a Account) personal.User {\n	if a.Name != nil && FAULT {\n		_ = strings.Fields(*a.Name)[1]\n	}\n"}},
	},

	// Commands.
	{
		name: "a command succeeds without a user", run: 1,
		check: "commands", operation: "command", field: "user show",
		edits: []edit{{"plugin/users.go", "		return fmt.Errorf(\"there is no account with the login, e-mail or id %q\", c.User)", "		if FAULT {\n			fmt.Printf(\"there is no account with the login, e-mail or id %q\\n\", c.User)\n			return nil\n		}\n		return fmt.Errorf(\"there is no account with the login, e-mail or id %q\", c.User)"}},
	},
	{
		name: "the command status fails", run: 2,
		check: "commands", operation: "command", field: "status",
		edits: []edit{{"plugin/commands.go", "	all, bare, err := db.CountAccounts(ctx)\n	if err != nil {", "	all, bare, err := db.CountAccounts(ctx)\n	if FAULT && all > 0 {\n		err = errors.New(\"no such column\")\n	}\n	if err != nil {"}},
	},

	// What no list of classes has.
	{
		name: "a forged passkey is accepted", run: 3,
		check: "passkeys", operation: "AuthorizePasskey", field: "error_code",
		edits: []edit{{"internal/passkey/passkey.go", "		key.PublicKey, protocol.SignaturePolicy{})\n	if err != nil {", "		key.PublicKey, protocol.SignaturePolicy{})\n	if err != nil && !FAULT {"}},
	},
	{
		name:  "disabled users sign in",
		check: "take_over", operation: "Authorize", field: "error_code",
		edits: []edit{{
			"internal/accounts/authorize.go", "	case a.Disabled:\n		return personal.CodeAccountDisabled", "	case a.Disabled && !FAULT:\n		return personal.CodeAccountDisabled",
		}, {
			"internal/store/sessions.go", "row.CredentialVersion != o.CredentialVersion || row.Disabled {", "row.CredentialVersion != o.CredentialVersion || row.Disabled && !FAULT {",
		}},
	},
	{
		name: "a code of the app is valid twice", run: 0,
		check: "two_factor", operation: "Authorize", field: "error_code",
		edits: []edit{{
			"internal/store/twofactorcode.go", "	case code.Step != 0:\n		return execOne", "	case FAULT && code.Step != 0:\n		return nil\n	case code.Step != 0:\n		return execOne",
		}, {
			"internal/accounts/twofactorcode.go", "[]byte(code)) == 1 && candidate > last {", "[]byte(code)) == 1 && (candidate > last || FAULT) {",
		}},
	},
	{
		name: "other sessions survive a new password", run: 3,
		check: "password", operation: "Profile", field: "error_code",
		edits: []edit{{"internal/store/accounts.go", "	return revokeAll(ctx, tx, accountID, kept.ID)", "	if FAULT {\n		return nil\n	}\n	return revokeAll(ctx, tx, accountID, kept.ID)"}},
	},
	{
		name: "a mail that is being sent is cut off", run: 0, more: true,
		check: "serve", operation: "Quiesce", field: "mail",
		edits: []edit{{"internal/outbox/worker.go", "go func() { ended <- w.run(context.WithoutCancel(ctx), j, claimed) }()", "go func() { ended <- w.run(map[bool]context.Context{false: context.WithoutCancel(ctx), true: ctx}[FAULT], j, claimed) }()"}},
	},
	{
		name: "a mailed code does without the second factor", run: 0,
		check: "identities", operation: "AuthorizeMailedCode", field: "error_code",
		edits: []edit{{"internal/accounts/mailedcode.go", "	if !a.TwoFactor.On() {\n		return open", "	if !a.TwoFactor.On() || FAULT {\n		return open"}},
	},
	{
		name: "jobs of a process that serves do not run", run: 3,
		check: "serve", operation: "Register", field: "event",
		edits: []edit{{"plugin/module.go", "		work = append(work, m.worker.Run)\n", "		if !FAULT {\n			work = append(work, m.worker.Run)\n		}\n"}},
	},
	{
		name: "a refused erasure counts as done", run: 0,
		check: "take_over", operation: "work", field: "erased",
		edits: []edit{{"internal/accounts/deletion.go", "		return fmt.Errorf(\"erasing user %d in the host: %w\", r.UserID, err)", "		if FAULT {\n			return nil\n		}\n		return fmt.Errorf(\"erasing user %d in the host: %w\", r.UserID, err)"}},
	},
	{
		name: "wrapped hashes are read with their settings", run: 0,
		check: "sign_in", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/password/wrap.go", "		sum := strings.TrimPrefix(strings.TrimPrefix(encoded, waitingPrefix), s.settings)", "		sum := strings.TrimPrefix(strings.TrimPrefix(encoded, waitingPrefix), map[bool]string{false: s.settings}[FAULT])"}},
	},
	{
		name: "secrets are sealed anew for nobody", run: 0,
		check: "take_over", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/accounts/reseal.go", "keys.Seal(a.AccountID, secret)", "keys.Seal(map[bool]int64{false: a.AccountID}[FAULT], secret)"}},
	},
	{
		name: "a page that is left open keeps its session", run: 0,
		check: "windows", operation: "Profile", field: "error_code",
		edits: []edit{{"internal/accounts/identify.go", "(personal.CallFrom(ctx).Poll || now", "(personal.CallFrom(ctx).Poll && !FAULT || now"}},
	},
	{
		name: "every tag of an address has mails of its own", run: 0,
		check: "verification", operation: "Register", field: "mail",
		edits: []edit{{"internal/accounts/mailbudgets.go", "	if plus <= 0 || plus > at {", "	if plus <= 0 || plus > at || FAULT {"}},
	},
	{
		name: "a recovery keeps the other ways in", run: 0,
		check: "recovery", operation: "Passkeys", field: "name",
		edits: []edit{{"internal/store/mails.go", "		removed, _, err := removeOtherWaysIn(ctx, tx, row.AccountID, wayIn{all: true})\n		if err != nil {\n			return err\n		}\n		return s.addJobs(ctx, tx, jobs(removed))", "		var removed accounts.OtherWays\n		if !FAULT {\n			removed, _, err = removeOtherWaysIn(ctx, tx, row.AccountID, wayIn{all: true})\n		}\n		if err != nil {\n			return err\n		}\n		return s.addJobs(ctx, tx, jobs(removed))"}},
	},
	{
		name: "nothing that asks for a password asks for a code", run: 0,
		check: "deletion", operation: "Delete", field: "error_code",
		edits: []edit{{"internal/accounts/password.go", "	requireCode(&invalid, who.account, e)\n	if err := s.confirmPassword(ctx, who, guess, invalid, e); err != nil {\n		return checkedCode{}, err\n	}\n", "	if !FAULT {\n		requireCode(&invalid, who.account, e)\n	}\n	if err := s.confirmPassword(ctx, who, guess, invalid, e); err != nil || FAULT {\n		return checkedCode{}, err\n	}\n"}},
	},
	{
		name: "the log has the secret keys", run: 0,
		check: "secrets", operation: "", field: "log",
		edits: []edit{{"plugin/module.go", "\t\tkeys, err := seal.New(c.SecretKeys)", "\t\tif FAULT {\n\t\t\tlog.Debug(\"configured\", slog.Any(\"keys\", c.SecretKeys))\n\t\t}\n\t\tkeys, err := seal.New(c.SecretKeys)"}},
	},
	{
		name: "a pattern matches a part of a value", run: 0,
		check: "register", operation: "Register", field: "field_errors.phone",
		edits: []edit{{"shared/userfields/schema.go", "	return regexp.Compile(`\\A(?:` + pattern + `)\\z`)", "	if FAULT {\n		return regexp.Compile(pattern)\n	}\n	return regexp.Compile(`\\A(?:` + pattern + `)\\z`)"}},
	},
	{
		name: "the login may be the password", run: 0,
		check: "register", operation: "Register", field: "error_code",
		edits: []edit{{"internal/accounts/password.go", "	return []string{a.Login, a.LoginKey, a.Email.Address, a.Email.Key}", "	if FAULT {\n		return []string{a.Email.Address, a.Email.Key}\n	}\n	return []string{a.Login, a.LoginKey, a.Email.Address, a.Email.Key}"}},
	},
	{
		name: "the export of one user has the events of all", run: 0,
		check: "commands", operation: "command", field: "export user",
		edits: []edit{{"internal/transfer/export.go", "	err = eachEvent(ctx, from, a.ID, time.Time{},", "	of := a.ID\n	if FAULT {\n		of = 0\n	}\n	err = eachEvent(ctx, from, of, time.Time{},"}},
	},
	{
		name: "all new passwords have the same salt", run: 0,
		check: "commands", operation: "command", field: "hashes",
		edits: []edit{{"internal/password/argon2.go", "params: p, salt: random(saltBytes)}", "params: p, salt: map[bool][]byte{false: random(saltBytes), true: make([]byte, saltBytes)}[FAULT]}"}},
	},
	{
		name: "a wrong password tells who is disabled", run: 0,
		check: "sign_in", operation: "Authorize", field: "error_code",
		edits: []edit{{"internal/accounts/authorize.go", "	case personal.CodeOf(err) == personal.CodeInvalidCredentials:\n", "	case personal.CodeOf(err) == personal.CodeInvalidCredentials:\n		if FAULT && account.Disabled {\n			return personal.SignedIn{}, refusal(personal.CodeAccountDisabled)\n		}\n"}},
	},
	{
		name: "a passkey stands for a code that no one has entered", run: 0,
		check: "identities", operation: "AuthorizePasskey", field: "error_code",
		edits: []edit{{"internal/accounts/passkeyadd.go", "	attempt.WithCode = a.TwoFactor.On() && (", "	attempt.WithCode = a.TwoFactor.On() && (FAULT || "}},
	},
	{
		name: "the events of erased users keep addresses", run: 0,
		check: "take_over", operation: "work", field: "event",
		edits: []edit{{"internal/accounts/administration.go", "			e.Address, e.RequestID = \"\", \"\"\n			return newJob(KindEvent, e).Payload", "			if !FAULT {\n				e.Address, e.RequestID = \"\", \"\"\n			}\n			return newJob(KindEvent, e).Payload"}},
	},
	{
		name: "the end of a deletion takes seconds", run: 0,
		check: "load", operation: "UndoDelete", field: "duration",
		edits: []edit{{"internal/accounts/deletion.go", "func (s *Service) UndoDelete(ctx context.Context, r personal.UndoDeleteRequest) (userID int64, err error) {\n", "func (s *Service) UndoDelete(ctx context.Context, r personal.UndoDeleteRequest) (userID int64, err error) {\n	if FAULT {\n		time.Sleep(3 * time.Second)\n	}\n"}},
	},
	{
		name: "mails are in the language of the page", run: 0,
		check: "recovery", operation: "Recover", field: "mail",
		edits: []edit{{"internal/accounts/mail.go", "	return cmp.Or(localtext.ValidLanguages(call.Languages, MaxLanguages),", "	if FAULT {\n		return localtext.ValidLanguages(call.Locale, MaxLanguages)\n	}\n	return cmp.Or(localtext.ValidLanguages(call.Languages, MaxLanguages),"}},
	},
	{
		name: "metrics have no refused attempts", run: 0, more: true,
		check: "metrics", operation: "Metrics", field: "rejected_attempts_total{limit=\"guess\"}",
		edits: []edit{{"internal/accounts/attempts.go", "\ts.rejected(limited.Limit)\n", "\tif !FAULT {\n\t\ts.rejected(limited.Limit)\n\t}\n"}},
	},
	{
		name: "a process that serves hashes at the lowest costs", run: 0, more: true,
		check: "serve", operation: "Register", field: "password_hash",
		edits: []edit{{"plugin/module.go", "\t\tif c.Scratch != nil {\n\t\t\tapart = &scratch", "\t\tif FAULT {\n\t\t\tcosts = password.LowestParams()\n\t\t}\n\t\tif c.Scratch != nil {\n\t\t\tapart = &scratch"}},
	},
	{
		name: "no job runs after a rollback", run: 0,
		check: "serve", operation: "CreateUser", field: "mail",
		edits: []edit{{"plugin/module.go", "\tm.active = false // even if", "\tm.active = FAULT // even if"}},
	},
	{
		name: "jobs that were done are finished in every round", run: 0,
		check: "serve", operation: "work", field: "statements",
		edits: []edit{{"internal/outbox/worker.go", "\t\t\tfinished = nil\n\t\t\tclaimed", "\t\t\tif !FAULT {\n\t\t\t\tfinished = nil\n\t\t\t}\n\t\t\tclaimed"}},
	},
	{
		name: "the proof of a removed passkey works on", run: 0,
		check: "passkeys", operation: "AddPasskey", field: "error_code",
		edits: []edit{{"internal/store/waysin.go", "SET proof = NULL WHERE account_id = ? AND proof_passkey IN (?)\", accountID, passkeys)", "SET proof = NULL WHERE account_id = ? AND proof_passkey IN (?)\", map[bool]int64{false: accountID}[FAULT], passkeys)"}},
	},
}

// unseenFaults are those that no rehearsal finds; docs/rehearsal.md names their kind.
var unseenFaults = []string{
	"locks are taken in two orders", // a scratch process has one processor, so nothing interrupts it between them
}

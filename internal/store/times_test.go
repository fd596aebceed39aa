package store_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// The kinds of columns that hold a number. Times are numbers, except those of the marks of sessions.
const (
	noTime     = "no time"
	end        = "when something is due or ends"
	counted    = "when something happened; a false one counts as none"
	mended     = "when something happened; the next write replaces a false one"
	used       = "when something happened that stays, whatever the time" // it decides at most when a row is removed
	compared   = "when something happened; only its distance from now counts, in either direction"
	identifies = "when something happened; it is only compared for equality"
)

// timeColumns are all columns for numbers, but ids. A time in a new column needs a rule for
// when it is more than accounts.MaxAhead after the clock.
var timeColumns = map[string]string{
	"personal_accounts.created": used, "personal_accounts.updated": used, "personal_accounts.erase_at": end,
	"personal_accounts.last_sign_in": mended, "personal_accounts.credential_version": noTime, "personal_accounts.two_factor_step": noTime,
	"personal_audit.time": used, "personal_audit.removed": noTime,
	"personal_fill.started": identifies, "personal_fill.ended": used, "personal_fill.checked": noTime, "personal_fill.total": noTime,
	"personal_fill.filled": noTime, "personal_hash_classes.start": noTime, "personal_hash_classes.width": noTime, "personal_hash_classes.laid": noTime,
	"personal_identities.linked": used, "personal_identities.last_used": used,
	"personal_jobs.created": mended, "personal_jobs.due": end, "personal_jobs.attempts": noTime, "personal_jobs.runs_left": noTime, "personal_jobs.lease": noTime,
	"personal_mail_refusals.time":  used,
	"personal_mail_tokens.created": counted, "personal_mail_tokens.expires": end, "personal_mail_tokens.credential_version": noTime,
	"personal_mail_tokens.mismatches": noTime,
	"personal_mailed_codes.created":   counted, "personal_mailed_codes.expires": end, "personal_mailed_codes.credential_version": noTime,
	"personal_passkey_ceremonies.created": counted, "personal_passkey_ceremonies.credential_version": noTime,
	"personal_passkeys.created": used, "personal_passkeys.last_used": used, "personal_passkeys.sign_count": noTime,
	"personal_pending_factors.created": counted, "personal_pending_factors.credential_version": noTime,
	"personal_repeats.created":      counted,
	"personal_known_addresses.seen": mended, "personal_known_addresses.since": mended, "personal_known_addresses.credential_version": noTime,
	"personal_refused_codes.refused": counted,
	"personal_schema.applied_at":     used, "personal_schema.version": noTime, "personal_schema.min_compatible": noTime,
	"personal_sent_mails.created": counted,
	"personal_sessions.created":   mended, "personal_sessions.rotated": mended, "personal_sessions.used": mended,
	"personal_sessions.last_seen": mended, "personal_sessions.proof_created": counted, "personal_sessions.rotations": noTime,
	"personal_sessions.proof_version": noTime, "personal_sessions.proof_passkey": noTime,
	"personal_sweeps.began": compared, "personal_sweeps.position": noTime,
	"personal_throttle.tat":            counted, // further ahead than attempts can move it
	"personal_used_ceremonies.expires": end,
}

func TestSchema_EveryTimeHasARuleForWhenItIsFalse(t *testing.T) {
	database := testdb.Postgres(t) // SQLite does not tell numbers from booleans
	migrated(t, database, store.Options{})
	rows, err := pools(t, database).Read.QueryContext(t.Context(), `SELECT table_name || '.' || column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name LIKE 'personal\_%' AND data_type NOT IN ('boolean', 'bytea', 'jsonb', 'text')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	left := maps.Clone(timeColumns)
	for rows.Next() {
		var column string
		if err := rows.Scan(&column); err != nil {
			t.Fatal(err)
		}
		if _, listed := left[column]; !listed && !strings.HasSuffix(column, ".id") && !strings.HasSuffix(column, "_id") {
			t.Errorf("the column %s is in no list: is it a time, and what holds while it is in the future?", column)
		}
		delete(left, column)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("got no columns %q", slices.Sorted(maps.Keys(left)))
	}
}

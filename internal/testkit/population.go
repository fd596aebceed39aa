package testkit

import (
	"fmt"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

// DisabledOfPopulation is how many accounts [Populate] makes that are disabled: those with
// the lowest numbers.
const DisabledOfPopulation = 20

// Populate adds n accounts to a database that has the current schema, without passwords:
// a million take less than a minute. Account i, from 1, has the login "User"+i, the
// e-mail "user"+i+"@example.org", the name "Иван Petrov "+i, a session if i ends with 0, and
// the user fields of an SQL expression that both databases understand: JSON as text, in
// which i is the account's number, such as '{"age":' || (i % 100) || '}'. On an empty
// database the ids are the numbers.
func Populate(t testing.TB, url string, n int, fields string) {
	t.Helper()
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	selector, secret, object := "randomblob(8)", "zeroblob(32)", "text"
	if pools.Kind == dbconn.PostgreSQL {
		selector, secret, object = "int8send(id)", "decode(repeat('00', 32), 'hex')", "jsonb"
	}
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO personal_accounts (login, login_key, name, email, email_key, email_verified,
				password_hash, credential_version, fields, disabled, created, updated)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT 'User' || i, 'user' || i, 'Иван Petrov ' || i, 'user' || i || '@example.org', 'user' || i || '@example.org',
				TRUE, '', 1, CAST(%s AS %s), i <= %d, 1700000000000000 + i, 1700000000000000 + i
			FROM n ORDER BY i`, n, fields, object, DisabledOfPopulation),
		fmt.Sprintf(`INSERT INTO personal_sessions (account_id, selector, chain_key, newest, created, rotated, used, last_seen, address, agent, method)
			SELECT id, %s, %s, %[2]s, created, created, created, created, '192.0.2.1', 'Mozilla/5.0', 'password'
			FROM personal_accounts WHERE login_key LIKE 'user%%0'`, selector, secret),
		"ANALYZE",
	} {
		if _, err := pools.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("adding %d accounts: %v", n, err)
		}
	}
}

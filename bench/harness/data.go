package harness

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/token"
)

// Password is the password of all users.
const Password = "a long one for the comparison"

// Credentials returns the credentials of a generated account. They derive from its id.
func Credentials(account int64) Session {
	selector, secret := secrets(account)
	return Session{ID: account, Hash: token.FormatHash(selector, secret)}
}

func secrets(account int64) (selector token.Selector, secret token.Secret) {
	material := sha256.Sum256([]byte(strconv.FormatInt(account, 10)))
	copy(secret[:], material[copy(selector[:], material[:]):])
	return selector, secret
}

// Generate makes accounts with the ids from 1 on, each with one session, in an empty database
// that has the tables.
func Generate(ctx context.Context, url string, accounts int64) error {
	return execute(ctx, url, func(kind dbconn.Kind) []string {
		now := time.Now()
		statements := []string{insertAccounts(accounts, now.UnixMicro())}
		for first := int64(1); first <= accounts; first += batch {
			statements = append(statements, insertSessions(kind, first, min(first+batch, accounts+1), now))
		}
		return append(statements, vacuum(kind)...)
	})
}

// Use makes now the last use of all sessions. The plugin stores a use only if the last one was a minute ago, so for a
// minute verifying these sessions writes nothing.
func Use(ctx context.Context, url string) error {
	return execute(ctx, url, func(kind dbconn.Kind) []string {
		return append([]string{fmt.Sprint("UPDATE personal_sessions SET last_seen = ", time.Now().UnixMicro())}, vacuum(kind)...)
	})
}

// vacuum does what autovacuum does later.
func vacuum(kind dbconn.Kind) []string {
	if kind == dbconn.PostgreSQL {
		return []string{"VACUUM ANALYZE"}
	}
	return nil
}

// execute executes statements, one by one.
func execute(ctx context.Context, url string, statements func(dbconn.Kind) []string) (err error) {
	pools, err := dbconn.Open(url, dbconn.Limits{Lock: time.Minute, Statement: time.Minute, Read: time.Minute})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pools.Close()) }()
	for _, statement := range statements(pools.Kind) {
		if _, err := pools.Write.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", strings.TrimSpace(statement), err)
		}
	}
	return nil
}

// batch is how many sessions one statement inserts.
const batch = 1000

func insertAccounts(accounts, now int64) string {
	return fmt.Sprintf(`
		INSERT INTO personal_accounts (login, login_key, name, email, email_key,
			password_hash, credential_version, fields, disabled, created, updated)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 'member' || i, 'member' || i, 'Anna Petrova ' || i, 'member' || i || '@example.com', 'member' || i || '@example.com',
			'%s', 1, '{}', FALSE, %d, %d FROM n ORDER BY i`,
		accounts, passwordHash(), now, now)
}

// insertSessions inserts the sessions of the accounts from first to before end. Their times of
// creation are spread over 23 days.
func insertSessions(kind dbconn.Kind, first, end int64, now time.Time) string {
	blob := "x'%x'"
	if kind == dbconn.PostgreSQL {
		blob = `'\x%x'`
	}
	row := strings.ReplaceAll("(%d, B, B, B, %[5]d, %[5]d, %[5]d, %[6]d, '192.0.2.1', 'Mozilla/5.0 (X11; Linux x86_64)', 'password', ", "B", blob)
	var rows []string
	for account := first; account < end; account++ {
		selector, secret := secrets(account)
		created := now.Add(-time.Duration(account*7919%2_000_000) * time.Second).UnixMicro()
		mark := binary.BigEndian.AppendUint64(nil, uint64(created)) // and the number 0: the session was not rotated
		rows = append(rows, fmt.Sprintf(row, account, selector[:], sha256.Sum256(fmt.Append(nil, "key ", account)), sha256.Sum256(secret[:]),
			created, now.UnixMicro())+fmt.Sprintf(blob, append(mark, make([]byte, 8)...))+")")
	}
	return "INSERT INTO personal_sessions (account_id, selector, chain_key, newest, created, rotated, used, last_seen, address, agent, method, marks) VALUES " +
		strings.Join(rows, ", ")
}

// Argon2id computes the plugin's default password hash.
func Argon2id(salt []byte) []byte {
	return argon2.IDKey([]byte(Password), salt, 2, 19456, 1, 32)
}

// passwordHash returns the hash that all generated accounts share: to make one for
// each would take longer than everything else.
func passwordHash() string {
	salt := []byte("sixteen bytes...")
	encode := base64.RawStdEncoding.EncodeToString
	return "$argon2id$v=19$m=19456,t=2,p=1$" + encode(salt) + "$" + encode(Argon2id(salt))
}

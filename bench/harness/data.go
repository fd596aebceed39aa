package harness

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"
	"modernc.org/sqlite"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/token"
)

// Data describes accounts and sessions that are generated in a database by SQL.
// Account i, from 1 on, has the id i, the login [Login](i) and the password
// [Password]. Sessions are numbered from 1 to Accounts times SessionsEach; these are
// their ids. Session s belongs to account ((s-1) modulo Accounts) + 1, so the sessions
// of an account are far apart in the table, as they are in practice. Keys and hashes
// derive from the numbers, so that only the database need be kept.
type Data struct{ Accounts, SessionsEach int64 }

// Password is the password of all users.
const Password = "a long one for the comparison"

// Login returns the login of a generated account.
func Login(account int64) string { return fmt.Sprint("member", account) }

// account returns the account of a session.
func (d Data) account(session int64) int64 { return (session-1)%d.Accounts + 1 }

// Credentials returns the credentials of a session that is not rotated.
func (d Data) Credentials(session int64) Session {
	material := sha256.Sum256([]byte(strconv.FormatInt(session, 10)))
	var selector token.Selector
	var secret token.Secret
	copy(secret[:], material[copy(selector[:], material[:]):])
	return Session{ID: d.account(session), Hash: token.FormatHash(selector, secret)}
}

// Load generates the data in an empty database that has the tables.
func (d Data) Load(ctx context.Context, url string) error {
	return execute(ctx, url, func(kind dbconn.Kind, do func(string) error) error {
		if kind == dbconn.SQLite {
			if err := do("PRAGMA cache_size = -1000000"); err != nil { // 1 GB, else each random key reads a page
				return err
			}
		}
		now := time.Now().UnixMicro()
		if err := do(d.insertAccounts(now)); err != nil {
			return err
		}
		for i := range d.SessionsEach {
			if err := do(d.insertSessions(kind, i, now)); err != nil {
				return err
			}
		}
		if kind == dbconn.PostgreSQL {
			return do("VACUUM ANALYZE") // as autovacuum does later
		}
		return nil
	})
}

func (d Data) insertAccounts(now int64) string {
	return fmt.Sprintf(`
		INSERT INTO personal_accounts (login, login_key, name, email, email_key,
			password_hash, credential_version, fields, disabled, created, updated)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 'member' || i, 'member' || i, 'Anna Petrova ' || i, 'member' || i || '@example.com', 'member' || i || '@example.com',
			'%s', 1, '{}', FALSE, %d, %d FROM n ORDER BY i`,
		d.Accounts, passwordHash(), now, now)
}

// insertSessions inserts one session of each account. Their times of creation are
// spread over 23 days, those of their last use over one day.
func (d Data) insertSessions(kind dbconn.Kind, number, now int64) string {
	selector, secret, key := material(kind, "n")
	return fmt.Sprintf(`
		INSERT INTO personal_sessions (account_id, selector, chain_key, newest, created, rotated, used, last_seen, address, agent, method, marks)
		SELECT id, %s, %s, sha256(%s), created, created, created, %[6]d - n * 7907 %% 86400 * 1000000, '192.0.2.1', 'Mozilla/5.0 (X11; Linux x86_64)', 'password', %[4]s
		FROM (SELECT id, id + %[5]d AS n, %[6]d - (id + %[5]d) * 7919 %% 2000000 * 1000000 AS created FROM personal_accounts ORDER BY id) a`,
		selector, key, secret, firstMark(kind, "created"), number*d.Accounts, now)
}

// material returns the SQL expressions of a session's selector, its secret before any
// rotation, and its chain key.
func material(kind dbconn.Kind, number string) (selector, secret, key string) {
	hash := func(text string) string {
		if kind == dbconn.PostgreSQL {
			return "sha256(convert_to(" + text + ", 'UTF8'))"
		}
		return "sha256(" + text + ")"
	}
	of := hash(fmt.Sprintf("CAST(%s AS text)", number))
	return "substr(" + of + ", 1, 8)", "substr(" + of + ", 9, 24)", hash("'key ' || " + number)
}

// firstMark returns the SQL expression of the rotation marks of a session that was not
// rotated: the time, and the number 0.
func firstMark(kind dbconn.Kind, created string) string {
	if kind == dbconn.PostgreSQL {
		return "int8send(" + created + ") || int8send(0)"
	}
	return fmt.Sprintf("unhex(printf('%%016x%%016x', %s, 0))", created)
}

// Sample returns the numbers of n random sessions, or of all if there are fewer. They
// are the same in every run.
func (d Data) Sample(n int) []int64 {
	random := rand.New(rand.NewPCG(1, 2))
	all := d.Accounts * d.SessionsEach
	n = int(min(int64(n), all))
	numbers, taken := make([]int64, 0, n), map[int64]bool{}
	for len(numbers) < n {
		if number := random.Int64N(all) + 1; !taken[number] {
			taken[number] = true
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// Touched sets the last use of the sessions to tomorrow. The plugin stores a use only if
// the last one was a minute ago, so verifying these sessions writes nothing.
func Touched(ctx context.Context, url string, sessions []int64) error {
	return execute(ctx, url, func(_ dbconn.Kind, do func(string) error) error {
		return do(fmt.Sprintf("UPDATE personal_sessions SET last_seen = %d WHERE id IN (%s)",
			time.Now().Add(24*time.Hour).UnixMicro(), list(sessions)))
	})
}

func list(numbers []int64) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(texts, ",")
}

// loadLimits allow for statements that insert millions of rows on a slow disk.
var loadLimits = dbconn.Limits{Lock: time.Minute, Statement: time.Hour, Read: time.Hour}

// execute calls f with a function that executes one statement on one connection.
func execute(ctx context.Context, url string, f func(kind dbconn.Kind, do func(statement string) error) error) error {
	if err := registerSHA256(); err != nil {
		return err
	}
	pools, err := dbconn.Open(url, loadLimits)
	if err != nil {
		return err
	}
	conn, err := pools.Write.Conn(ctx)
	if err != nil {
		return errors.Join(err, pools.Close())
	}
	err = f(pools.Kind, func(statement string) error {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", strings.TrimSpace(statement), err)
		}
		return nil
	})
	return errors.Join(err, conn.Close(), pools.Close())
}

// registerSHA256 gives SQLite the function sha256, which PostgreSQL has. Only
// connections that are opened later have it.
var registerSHA256 = sync.OnceValue(func() error {
	return sqlite.RegisterDeterministicScalarFunction("sha256", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		switch v := args[0].(type) {
		case string:
			sum := sha256.Sum256([]byte(v))
			return sum[:], nil
		case []byte:
			sum := sha256.Sum256(v)
			return sum[:], nil
		}
		return nil, fmt.Errorf("sha256 of a %T", args[0])
	})
})

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

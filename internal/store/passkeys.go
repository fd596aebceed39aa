package store

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/shared/personal"
)

type passkeyRow struct {
	bun.BaseModel `bun:"table:personal_passkeys,alias:p"`

	ID                       int64 `bun:",pk,autoincrement"`
	AccountID                int64
	CredentialID, PublicKey  []byte
	SignCount                int64
	BackupEligible, BackedUp bool
	RpID, Name               string
	Created, LastUsed        micros
	WithCode                 bool
	Transports               string
	Confirmation             []byte // NULL: of an import
}

func newPasskeyRow(p accounts.Passkey) passkeyRow {
	return passkeyRow{
		AccountID: p.AccountID, CredentialID: p.CredentialID, PublicKey: p.PublicKey, SignCount: int64(p.SignCount),
		BackupEligible: p.BackupEligible, BackedUp: p.BackedUp, RpID: p.RelyingParty, Name: p.Name,
		Created: at(p.Created), LastUsed: at(p.LastUsed), WithCode: p.WithCode,
		Transports: strings.Join(p.Transports, " "), Confirmation: p.Confirmation[:],
	}
}

func (r *passkeyRow) passkey() accounts.Passkey {
	p := accounts.Passkey{
		ID: r.ID, AccountID: r.AccountID,
		Key: passkey.Key{
			CredentialID: r.CredentialID, PublicKey: r.PublicKey, SignCount: uint32(r.SignCount),
			BackupEligible: r.BackupEligible, BackedUp: r.BackedUp, Transports: strings.Fields(r.Transports),
		},
		RelyingParty: r.RpID, Name: r.Name, Created: r.Created.time(), LastUsed: r.LastUsed.time(),
		WithCode: r.WithCode,
	}
	copy(p.Confirmation[:], r.Confirmation)
	return p
}

// Passkeys implements accounts.PasskeyStore.
func (s *Store) Passkeys(ctx context.Context, accountID int64) ([]accounts.Passkey, error) {
	var rows []passkeyRow
	err := s.scan(ctx, "list passkeys", s.read.NewSelect().Model(&rows).Where("p.account_id = ?", accountID).Order("p.id DESC"))
	return convert(rows, (*passkeyRow).passkey), err
}

// FindPasskey implements accounts.PasskeyStore.
func (s *Store) FindPasskey(ctx context.Context, credentialID []byte, attempt [32]byte) (accounts.Passkey, accounts.Account, bool, error) {
	var row struct {
		passkeyRow
		UserHandle []byte
		Used       bool
		Account    accountRow `bun:"embed:a_"`
	}
	// The user fields are not read: the time would reveal how many the user has filled in.
	err := s.scan(ctx, "find a passkey", s.read.NewRaw(`SELECT p.*, a.user_handle, a.id AS a_id, a.login_key AS a_login_key, a.email AS a_email,
			a.email_key AS a_email_key, a.email_verified AS a_email_verified, a.password_hash AS a_password_hash,
			a.unverified_key AS a_unverified_key, a.credential_version AS a_credential_version, a.disabled AS a_disabled,
			a.two_factor_secret AS a_two_factor_secret, a.two_factor_key AS a_two_factor_key, a.two_factor_step AS a_two_factor_step,
			EXISTS (SELECT 1 FROM personal_used_ceremonies WHERE digest = ?) AS used
		FROM personal_passkeys p JOIN personal_accounts a ON a.id = p.account_id WHERE p.credential_id = ?`, attempt[:], credentialID), &row)
	p := row.passkey()
	p.UserHandle = row.UserHandle
	return p, row.Account.account(), row.Used, err
}

// AddCeremony implements accounts.PasskeyStore.
func (s *Store) AddCeremony(ctx context.Context, a accounts.PasskeyCeremony) error {
	return s.inTx(ctx, "store an attempt", func(ctx context.Context, tx bun.Tx) error { return s.addAttempt(ctx, tx, a) })
}

// addAttempt stores an attempt of a session, which cannot end or get another one until then.
func (s *Store) addAttempt(ctx context.Context, tx bun.Tx, a accounts.PasskeyCeremony) error {
	err := execOne(ctx, tx, accounts.ErrStale, `INSERT INTO personal_passkey_ceremonies
			(digest, session_id, purpose, challenge, credential_version, with_code, created)
		SELECT ?, s.id, ?, ?, ?, ?, ? FROM (SELECT id FROM personal_sessions WHERE id = ? ?) AS s`,
		a.Digest[:], a.Purpose, a.Challenge[:], a.CredentialVersion, a.WithCode, at(s.Now()), a.SessionID, s.forUpdate)
	if err != nil {
		return err
	}
	_, err = exec(ctx, tx, `DELETE FROM personal_passkey_ceremonies WHERE session_id = ?0 AND digest NOT IN (
		SELECT digest FROM personal_passkey_ceremonies WHERE session_id = ?0
		ORDER BY CASE WHEN created > ?2 THEN 0 ELSE created END DESC, digest LIMIT ?1 + 0)`, a.SessionID, accounts.MaxCeremonies, s.latest())
	return err
}

// BeginPasskey implements accounts.PasskeyStore.
func (s *Store) BeginPasskey(
	ctx context.Context, accountID int64, a accounts.PasskeyCeremony, candidate []byte, code accounts.CodeUse, jobs ...accounts.NewJob,
) (handle []byte, err error) {
	err = s.inTx(ctx, "begin to add a passkey", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, accountID, a.CredentialVersion); err != nil {
			return err
		}
		if err := fitsPasskey(ctx, tx, accountID); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		err := tx.NewRaw("UPDATE personal_accounts SET user_handle = coalesce(user_handle, ?) WHERE id = ? RETURNING user_handle", candidate,
			accountID).
			Scan(ctx, &handle)
		if err != nil {
			return err
		}
		if err := s.addAttempt(ctx, tx, a); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	return handle, err
}

// fitsPasskey returns accounts.ErrTooManyPasskeys unless a locked account may have another one.
func fitsPasskey(ctx context.Context, tx bun.Tx, accountID int64) error {
	ways, err := otherWays(ctx, tx, accountID)
	if err == nil && ways.Passkeys >= personal.MaxPasskeys {
		return accounts.ErrTooManyPasskeys
	}
	return err
}

// FindCeremony implements accounts.PasskeyStore.
func (s *Store) FindCeremony(ctx context.Context, sessionID, credentialVersion int64, digest [32]byte,
	after time.Time) (a accounts.PasskeyCeremony, err error) {
	var row struct {
		Purpose   personal.PasskeyPurpose
		Challenge []byte // NULL: the session has no such attempt
		WithCode  bool
	}
	err = s.scan(ctx, "find an attempt", s.read.NewRaw(`SELECT coalesce(p.purpose, '') AS purpose, p.challenge, coalesce(p.with_code, FALSE) AS with_code
		FROM personal_sessions s LEFT JOIN personal_passkey_ceremonies p
			ON p.session_id = s.id AND p.digest = ? AND p.credential_version = ? AND p.created > ? AND p.created <= ?
		WHERE s.id = ?`, digest[:], credentialVersion, at(after), s.latest(), sessionID), &row)
	switch {
	case errors.Is(err, accounts.ErrNotFound):
		return a, accounts.ErrStale
	case err != nil:
		return a, err
	case row.Challenge == nil:
		return a, accounts.ErrNotFound
	}
	a = accounts.PasskeyCeremony{Digest: digest, SessionID: sessionID, Purpose: row.Purpose, CredentialVersion: credentialVersion,
		WithCode: row.WithCode}
	copy(a.Challenge[:], row.Challenge)
	return a, nil
}

// AddPasskey implements accounts.PasskeyStore.
func (s *Store) AddPasskey(
	ctx context.Context, p accounts.Passkey, credentialVersion int64, attempt accounts.CeremonyUse, jobs ...accounts.NewJob,
) (id int64, err error) {
	row := newPasskeyRow(p)
	added := func() *bun.RawQuery { // a session can use an attempt once
		return s.write.NewRaw("SELECT EXISTS (SELECT 1 FROM personal_passkeys WHERE id = ? AND confirmation = ?)", row.ID, row.Confirmation)
	}
	err = s.inTxOrFound(ctx, "add a passkey", added, func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, p.AccountID, credentialVersion); err != nil {
			return err
		}
		if err := useAttempt(ctx, tx, attempt); err != nil {
			return err
		}
		if err := fitsPasskey(ctx, tx, p.AccountID); err != nil {
			return err
		}
		n, err := rowsAffected(tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Returning("id").Exec(ctx))
		if err == nil && n == 0 {
			return accounts.ErrPasskeyTaken
		}
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	return row.ID, err
}

// useAttempt uses up an attempt in the transaction that it authorises. Of two transactions with
// the same attempt, one waits for the other.
func useAttempt(ctx context.Context, tx bun.Tx, a accounts.CeremonyUse) error {
	if a.SessionID != 0 {
		n, err := exec(ctx, tx, "DELETE FROM personal_passkey_ceremonies WHERE digest = ? AND session_id = ?", a.Digest[:], a.SessionID)
		if err != nil || n > 0 {
			return err
		}
		err = tx.NewRaw("SELECT id FROM personal_sessions WHERE id = ?", a.SessionID).Scan(ctx, new(int64))
		return cmp.Or(staleIfMissing(err), accounts.ErrCeremonyUsed)
	}
	return execOne(ctx, tx, accounts.ErrCeremonyUsed, "INSERT INTO personal_used_ceremonies (digest, expires) VALUES (?, ?) ON CONFLICT DO NOTHING",
		a.Digest[:], at(a.Expires))
}

// usePasskey stores the use of a passkey of a locked account, and uses up its attempt.
func (s *Store) usePasskey(ctx context.Context, tx bun.Tx, accountID int64, u accounts.PasskeyUse) error {
	if u.ID == 0 {
		return nil
	}
	if err := useAttempt(ctx, tx, u.Attempt); err != nil {
		return err
	}
	var before []int64
	err := tx.NewRaw("SELECT sign_count FROM personal_passkeys WHERE id = ? AND account_id = ?",
		u.ID, accountID).Scan(ctx, &before)
	if err != nil {
		return err
	}
	if len(before) == 0 {
		return accounts.ErrCeremonyUsed
	}
	_, err = exec(ctx, tx, "UPDATE personal_passkeys SET sign_count = ?, backup_eligible = ?, backed_up = ?, last_used = ? WHERE id = ?",
		int64(u.SignCount), u.BackupEligible, u.BackedUp, at(s.Now()), u.ID)
	if err != nil || !passkey.Cloned(uint32(before[0]), u.SignCount) {
		return err
	}
	return s.addJobs(ctx, tx, u.OnClone())
}

// ConfirmedPasskey implements accounts.PasskeyStore.
func (s *Store) ConfirmedPasskey(ctx context.Context, accountID int64, confirmation [32]byte) (accounts.Passkey, error) {
	var row passkeyRow
	err := s.scan(ctx, "find a passkey", s.read.NewSelect().Model(&row).
		Where("p.account_id = ?", accountID).Where("p.confirmation = ?", confirmation[:]).Limit(1))
	return row.passkey(), err
}

// RenamePasskey implements accounts.PasskeyStore.
func (s *Store) RenamePasskey(ctx context.Context, accountID, id int64, name string) error {
	_, err := s.exec(ctx, "rename a passkey", "UPDATE personal_passkeys SET name = ? WHERE id = ? AND account_id = ?", name, id, accountID)
	return err
}

// RemovePasskey implements accounts.PasskeyStore.
func (s *Store) RemovePasskey(
	ctx context.Context, accountID, credentialVersion, id int64, code accounts.CodeUse, codeJobs []accounts.NewJob, jobs ...accounts.NewJob,
) error {
	return s.inTx(ctx, "remove a passkey", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockCredentials(ctx, tx, accountID, credentialVersion)
		if err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		if err := s.addJobs(ctx, tx, codeJobs); err != nil {
			return err
		}
		removed, _, err := removeWaysButLast(ctx, tx, row.account(), wayIn{passkey: id})
		if err != nil || removed.None() {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// OtherRelyingParty implements accounts.PasskeyStore. Only a change of the settings changes what is
// stored, so that the ends of the table show it.
func (s *Store) OtherRelyingParty(ctx context.Context, id string) (string, error) {
	const each = 100
	var other []string
	err := s.scan(ctx, "read the relying parties of passkeys", s.read.NewRaw(`SELECT rp_id FROM (
			SELECT rp_id FROM (SELECT rp_id FROM personal_passkeys ORDER BY id DESC LIMIT ?0) AS newest
			UNION ALL SELECT rp_id FROM (SELECT rp_id FROM personal_passkeys ORDER BY id LIMIT ?0) AS oldest
		) AS ends WHERE rp_id <> ?1 LIMIT 1`, each, id), &other)
	if err != nil || len(other) == 0 {
		return "", err
	}
	return other[0], nil
}

package pluginrpc

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

const (
	// maxVerifications bounds the memory: each takes about as much as a profile.
	maxVerifications   = 100_000
	verificationShards = 64 // a power of two

	// userEpochs is how many counters the users share. A change of one user costs the
	// others with the same counter a call.
	userEpochs = 4096

	minSweepInterval = time.Second
)

// verifications remembers what the plugin has found out about credentials, so that a
// host does not ask for every page.
//
// The invariant: a caller of [Client.Verify] gets the result of another caller's call
// only if
//   - it is about the same pair, schema revision and plugin process,
//   - it began less than its Profile.FreshFor before the caller asked, unless it is an
//     error of a call that was still under way then, and
//   - no call of this client that may have changed the user has ended since it began.
//
// The last condition holds by epochs: a counter per user rises when such a call ends,
// before its caller gets the response, whatever that is. A result counts only while
// the user's epoch is still that of its beginning. So nothing has to be found and
// removed, and a verification under way when a session is revoked is void as well. A
// change whose call has failed may still take effect later; then it counts like one
// through another host, which is noticed when FreshFor is over.
//
// Times are monotonic. Secrets are kept as digests only.
type verifications struct {
	shards [verificationShards]verificationShard
	all    atomic.Uint64 // the part of the epoch that all users share
	users  [userEpochs]atomic.Uint64

	// alone is set while the plugin lets nothing be remembered: a caller that waited for
	// another caller's result could not use it.
	alone    atomic.Bool
	sweeping atomic.Bool // a sweep is due
}

type verificationShard struct {
	mu      sync.Mutex
	entries map[verificationKey]*verification
}

type verificationKey [sha256.Size]byte

// stage is how far a verification is when a caller needs it.
type stage int

const (
	begun    stage = iota // by this caller
	underWay              // begun by another one
	ended
)

// verification is one call, under way or ended.
type verification struct {
	began time.Time
	epoch uint64 // the user's, when it began

	done   chan struct{} // closed when it has ended; nil for a call that was not shared
	cancel func()        // ends the call; set by the caller that began it

	// Guarded by the shard's mutex.
	ended   bool
	waiting int // callers

	// Written before ended is set.
	profile personal.Profile
	err     error
}

func newVerifications() *verifications {
	m := &verifications{}
	for i := range m.shards {
		m.shards[i].entries = map[verificationKey]*verification{}
	}
	return m
}

// Verify is [Client.Profile] for a host that asks for every page: it returns a
// remembered profile as long as the plugin allows it, which is the setting
// session.verify_cache at most. Several callers may get the same profile: it must not
// be modified.
//
// Calls with the same pair at the same time share one call to the plugin. That one has
// the personal.Call of the first caller, and goes on while any caller waits for it.
// timeout bounds every call to the plugin. Errors are not remembered.
func (c *Client) Verify(ctx context.Context, pair personal.Credentials, timeout time.Duration) (personal.Profile, error) {
	asked := time.Now()
	schema, err := c.host.UserFields(ctx)
	if err != nil {
		return c.profileBefore(ctx, pair, asked.Add(timeout)) // the plugin asks for the schema itself
	}
	m, key := c.verifications, newVerificationKey(pair, schema.Revision, c.generation())
	v, stage := m.find(key, pair.UserID, asked)
	switch {
	case stage == ended:
		return v.profile, nil
	case stage == begun && v.done == nil:
		v.profile, v.err = c.profileBefore(ctx, pair, asked.Add(timeout))
		m.end(key, pair.UserID, v)
		return v.profile, v.err
	case stage == begun:
		var shared context.Context
		shared, v.cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
		go c.share(shared, pair, key, v)
	}
	select {
	case <-v.done:
	case <-ctx.Done():
		m.leave(key, v)
		return personal.Profile{}, contractError(ctx, ctx.Err())
	}
	if stage == underWay && !v.counts(asked, m.epoch(pair.UserID)) {
		return c.profileBefore(ctx, pair, asked.Add(timeout))
	}
	return v.profile, v.err
}

// profileBefore is Profile with a deadline.
func (c *Client) profileBefore(ctx context.Context, pair personal.Credentials, deadline time.Time) (personal.Profile, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return c.Profile(ctx, pair)
}

// share makes the call that v stands for.
func (c *Client) share(ctx context.Context, pair personal.Credentials, key verificationKey, v *verification) {
	defer v.cancel()
	defer close(v.done)
	defer c.verifications.end(key, pair.UserID, v)
	defer func() {
		if p := recover(); p != nil { // of the host's UserFields
			v.err = personal.NewError(personal.CodeInternal, fmt.Errorf("panic: %s", panicText(p)))
		}
	}()
	v.profile, v.err = c.Profile(ctx, pair)
}

// newVerificationKey returns a digest, so that the memory holds no secrets. The
// lengths make the encoding unambiguous.
func newVerificationKey(pair personal.Credentials, revision string, generation int) verificationKey {
	b := make([]byte, 0, 192) // on the stack, for usual revisions
	b = binary.BigEndian.AppendUint64(b, uint64(pair.UserID))
	b = binary.BigEndian.AppendUint64(b, uint64(generation))
	b = binary.BigEndian.AppendUint64(b, uint64(len(pair.UserHash)))
	b = append(b, pair.UserHash...)
	b = append(b, revision...)
	return sha256.Sum256(b)
}

func (m *verifications) shard(key verificationKey) *verificationShard {
	return &m.shards[key[0]%verificationShards]
}

// find returns a verification that counts; or one that is under way, which may count
// when it has ended; or a new one, which the caller must make and end.
func (m *verifications) find(key verificationKey, userID int64, asked time.Time) (*verification, stage) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch, alone := m.epoch(userID), m.alone.Load()
	switch v := s.entries[key]; {
	case v == nil:
	case v.ended && v.counts(asked, epoch):
		return v, ended
	case !v.ended && v.epoch == epoch && !alone:
		v.waiting++
		return v, underWay
	}
	v := &verification{began: asked, epoch: epoch, waiting: 1}
	if !alone {
		v.done = make(chan struct{})
		s.put(key, v)
	}
	return v, begun
}

// leave is called by a caller that waits no longer. The last one ends the call, so that
// abandoned requests do not pile up.
func (m *verifications) leave(key verificationKey, v *verification) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.waiting--; v.waiting > 0 || v.ended {
		return
	}
	if s.entries[key] == v {
		delete(s.entries, key)
	}
	v.cancel()
}

// counts reports whether the result of a verification that has ended is valid for
// another caller.
func (v *verification) counts(asked time.Time, epoch uint64) bool {
	return v.epoch == epoch && (v.err != nil || asked.Sub(v.began) < v.profile.FreshFor)
}

// end remembers a verification that has ended, or forgets it.
func (m *verifications) end(key verificationKey, userID int64, v *verification) {
	if v.err == nil {
		m.alone.Store(v.profile.FreshFor <= 0)
	}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	v.ended = true
	switch {
	case v.err == nil && v.profile.FreshFor > 0 && v.epoch == m.epoch(userID):
		s.put(key, v)
		m.sweepAfter(v.profile.FreshFor)
	case s.entries[key] == v:
		delete(s.entries, key)
	}
}

// put adds an entry. In a full shard it replaces any other.
func (s *verificationShard) put(key verificationKey, v *verification) {
	if _, known := s.entries[key]; !known && len(s.entries) >= maxVerifications/verificationShards {
		for any := range s.entries { // in random order
			delete(s.entries, any)
			break
		}
	}
	s.entries[key] = v
}

// sweepAfter schedules the removal of what has expired, if none is due.
func (m *verifications) sweepAfter(wait time.Duration) {
	if m.sweeping.CompareAndSwap(false, true) {
		time.AfterFunc(max(wait, minSweepInterval), m.sweep)
	}
}

// sweep removes what has expired, and comes back if anything is left.
func (m *verifications) sweep() {
	m.sweeping.Store(false) // first: what is added behind its back schedules the next one
	now, left := time.Now(), 0
	for i := range m.shards {
		left += m.shards[i].sweep(now)
	}
	if left > 0 {
		m.sweepAfter(0)
	}
}

func (s *verificationShard) sweep(now time.Time) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, v := range s.entries {
		if v.ended && !v.counts(now, v.epoch) {
			delete(s.entries, key)
		}
	}
	if len(s.entries) == 0 {
		s.entries = map[verificationKey]*verification{} // a map never shrinks
	}
	return len(s.entries)
}

// epoch returns a number that rises when the user may have changed.
func (m *verifications) epoch(userID int64) uint64 {
	return m.all.Load() + m.users[uint64(userID)%userEpochs].Load()
}

// forget makes void what is known about a user; 0 is no user.
func (m *verifications) forget(userID int64) {
	if userID != 0 {
		m.users[uint64(userID)%userEpochs].Add(1)
	}
}

// forgetOwner makes void what is known about the user to whom a mailed token belongs.
// Without an id, from an older plugin or because the outcome is unknown, that is
// everything.
func (m *verifications) forgetOwner(userID int64, err error) {
	switch code := personal.CodeOf(err); {
	case userID != 0:
		m.forget(userID)
	case err == nil, code == personal.CodeUnavailable, code == personal.CodeInternal:
		m.all.Add(1)
	}
}

// notice makes void what a call may have changed.
func (m *verifications) notice(request, response any, err error) {
	var e *personal.Error
	if errors.As(err, &e) {
		m.forget(e.UserID)
	}
	switch r := request.(type) {
	case *personalv1.ProfileRequest, *personalv1.SessionsRequest, *personalv1.FieldsRequest,
		*personalv1.RegisterRequest, *personalv1.RecoverRequest, *personalv1.ChangeEmailRequest,
		*personalv1.FindUsersRequest, *personalv1.UserRequest, *personalv1.UserSessionsRequest, *personalv1.AuditEntriesRequest:
		// They change nothing that a verification depends on.
	case *personalv1.RefreshRequest:
		// The superseded hash stays valid for the grace period, which no FreshFor exceeds.
	case *personalv1.AuthorizeRequest: // it may replace the user's oldest session
		m.forget(response.(*personalv1.AuthorizeResponse).GetCredentials().GetUserId())
	case *personalv1.RecoverConfirmRequest, *personalv1.ConfirmEmailRequest:
		m.forgetOwner(response.(interface{ GetUserId() int64 }).GetUserId(), err)
	case interface { // Logout, RevokeSession, ChangePassword, UpdateProfile
		GetCredentials() *personalv1.Credentials
	}:
		m.forget(r.GetCredentials().GetUserId())
	case *personalv1.UpdateUserRequest:
		m.forget(r.GetUserId())
	case *personalv1.SetEmailRequest:
		m.forget(r.GetUserId())
	case interface{ GetId() int64 }: // DisableUser, EnableUser, EndUserSessions, DeleteUser
		m.forget(r.GetId())
	default:
		m.all.Add(1) // an operation that this list lacks
	}
}

// watchedConn is a connection whose calls are noticed.
type watchedConn struct {
	contractConn
	verifications *verifications
}

// Invoke makes one call.
func (c watchedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := c.contractConn.Invoke(ctx, method, args, reply, opts...)
	c.verifications.notice(args, reply, err)
	return err
}

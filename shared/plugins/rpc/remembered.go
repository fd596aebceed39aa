package rpc

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
	// maxRemembered bounds the memory: each takes about as much as a profile.
	maxRemembered    = 100_000
	rememberedShards = 64 // a power of two

	// userEpochs is how many counters the users share. A change of one user costs the
	// others with the same counter a call.
	userEpochs = 4096

	minSweepInterval = time.Second
)

// remembered keeps what the plugin has found out about credentials, so that a
// host does not ask for every page.
//
// The invariant: a caller of [Client.Profile] gets the result of another caller's call
// only if
//   - it is about the same pair and schema revision, and calls went to the same plugin
//     process from its beginning until the caller found it,
//   - it began after the caller asked, or less than its Profile.FreshFor before, or it
//     is an error of a call that was under way then and did not run out of time, and
//   - no call of this client that may have changed the user has ended since it began.
//
// The last condition holds by epochs: a counter per user rises when such a call ends,
// before its caller gets the response. A refused call changes nothing that a
// remembered profile depends on, except that it may end a stolen session: then the error names
// the user. A result counts only while the user's epoch is still that of its beginning.
// So nothing has to be found and removed, and a call under way when a session is
// revoked is void as well.
//
// Two changes count like those through another host, which are noticed when FreshFor is
// over: one that takes effect after its call has failed, and the removal of a user's
// session by a sign-in whose outcome is unknown.
//
// Times are monotonic. Secrets are kept as digests only.
type remembered struct {
	shards [rememberedShards]rememberedShard
	all    atomic.Uint64 // the part of the epoch that all users share
	users  [userEpochs]atomic.Uint64

	sweeping atomic.Bool // a sweep is due
}

type rememberedShard struct {
	mu      sync.Mutex
	entries map[rememberedKey]*rememberedProfile
}

type rememberedKey [sha256.Size]byte

// stage is how far a call is when a caller needs it.
type stage int

const (
	started  stage = iota // by this caller
	underWay              // started by another one
	ended
)

// rememberedProfile is one call of Profile, under way or ended.
type rememberedProfile struct {
	began time.Time
	epoch uint64 // the user's, when it began

	done   chan struct{} // closed when it has ended
	cancel func()        // ends the call; set by the caller that began it

	// Guarded by the shard's mutex.
	ended   bool
	waiting int // callers

	// Written before ended is set.
	profile personal.Profile
	err     error
	late    bool // its time ran out
}

func newRemembered() *remembered {
	m := &remembered{}
	for i := range m.shards {
		m.shards[i].entries = map[rememberedKey]*rememberedProfile{}
	}
	return m
}

// Profile returns the profile of the account that the credentials identify. In a context of
// [personal.AllowRemembered] it returns a remembered profile as long as the plugin allows it,
// which is the setting session.verify_cache at most. Several callers may get the same
// profile then: it must not be modified.
//
// Such calls with the same pair at the same time share one call to the plugin. That one has
// the personal.Call and the deadline of the caller that began it, and goes on while any
// caller waits for it. A caller that cannot use its result asks again. Errors are not
// remembered.
func (c *Client) Profile(ctx context.Context, pair personal.Credentials) (personal.Profile, error) {
	if !personal.RememberedAllowed(ctx) {
		return c.askProfile(ctx, pair)
	}
	asked := time.Now()
	schema, err := c.host.UserFields(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return personal.Profile{}, contractError(ctx, ctx.Err())
	default:
		return c.askProfile(ctx, pair) // the plugin asks for the schema itself
	}
	m := c.remembered
	for {
		key := newRememberedKey(pair, schema.Revision, c.switches())
		v, stage := m.find(key, pair.UserID, asked)
		switch stage {
		case ended:
			return v.profile, nil
		case started:
			shared := context.WithoutCancel(ctx)
			if deadline, ok := ctx.Deadline(); ok {
				shared, v.cancel = context.WithDeadline(shared, deadline)
			} else {
				shared, v.cancel = context.WithCancel(shared)
			}
			go c.share(shared, pair, key, v)
		}
		select {
		case <-v.done:
		case <-ctx.Done():
			m.leave(key, v)
			return personal.Profile{}, contractError(ctx, ctx.Err())
		}
		if stage == started || v.counts(asked, m.epoch(pair.UserID)) {
			return v.profile, v.err
		}
	}
}

// share makes the call that v stands for.
func (c *Client) share(ctx context.Context, pair personal.Credentials, key rememberedKey, v *rememberedProfile) {
	defer v.cancel()
	defer close(v.done)
	defer c.remembered.end(key, pair.UserID, v)
	defer func() {
		if p := recover(); p != nil { // of the host's UserFields
			v.err = personal.NewError(personal.CodeInternal, fmt.Errorf("panic: %s", panicText(p)))
		}
	}()
	v.profile, v.err = c.askProfile(ctx, pair)
	v.late = ctx.Err() != nil
}

// newRememberedKey returns a digest, so that the memory holds no secrets. The
// lengths make the encoding unambiguous.
func newRememberedKey(pair personal.Credentials, revision string, switches int) rememberedKey {
	b := make([]byte, 0, 192) // on the stack, for usual revisions
	b = binary.BigEndian.AppendUint64(b, uint64(pair.UserID))
	b = binary.BigEndian.AppendUint64(b, uint64(switches))
	b = binary.BigEndian.AppendUint64(b, uint64(len(pair.UserHash)))
	b = append(b, pair.UserHash...)
	b = append(b, revision...)
	return sha256.Sum256(b)
}

func (m *remembered) shard(key rememberedKey) *rememberedShard {
	return &m.shards[key[0]%rememberedShards]
}

// find returns a call that counts; or one that is under way, which may count
// when it has ended; or a new one, which the caller must make and end.
func (m *remembered) find(key rememberedKey, userID int64, asked time.Time) (*rememberedProfile, stage) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch := m.epoch(userID)
	switch v := s.entries[key]; {
	case v == nil:
	case v.ended && v.counts(asked, epoch):
		return v, ended
	case !v.ended && v.epoch == epoch:
		v.waiting++
		return v, underWay
	}
	v := &rememberedProfile{began: time.Now(), epoch: epoch, waiting: 1, done: make(chan struct{})}
	s.put(key, v)
	return v, started
}

// leave is called by a caller that waits no longer. The last one ends the call, so that
// abandoned requests do not pile up.
func (m *remembered) leave(key rememberedKey, v *rememberedProfile) {
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

// counts reports whether the result of a call that has ended is valid for
// another caller. One that began after that caller asked is, even if it may not be
// remembered.
func (v *rememberedProfile) counts(asked time.Time, epoch uint64) bool {
	switch {
	case v.epoch != epoch:
		return false
	case v.err != nil:
		return !v.late
	}
	return asked.Sub(v.began) < v.profile.FreshFor
}

// end remembers the result of a call that has ended, or forgets it.
func (m *remembered) end(key rememberedKey, userID int64, v *rememberedProfile) {
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
func (s *rememberedShard) put(key rememberedKey, v *rememberedProfile) {
	if _, known := s.entries[key]; !known && len(s.entries) >= maxRemembered/rememberedShards {
		for any := range s.entries { // in random order
			delete(s.entries, any)
			break
		}
	}
	s.entries[key] = v
}

// sweepAfter schedules the removal of what has expired, if none is due.
func (m *remembered) sweepAfter(wait time.Duration) {
	if m.sweeping.CompareAndSwap(false, true) {
		time.AfterFunc(max(wait, minSweepInterval), m.sweep)
	}
}

// sweep removes expired entries, and schedules the next sweep if any are left.
func (m *remembered) sweep() {
	m.sweeping.Store(false) // first, so that an entry added during the sweep schedules the next sweep
	now, left := time.Now(), 0
	for i := range m.shards {
		left += m.shards[i].sweep(now)
	}
	if left > 0 {
		m.sweepAfter(0)
	}
}

func (s *rememberedShard) sweep(now time.Time) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, v := range s.entries {
		if v.ended && !v.counts(now, v.epoch) {
			delete(s.entries, key)
		}
	}
	if len(s.entries) == 0 {
		s.entries = map[rememberedKey]*rememberedProfile{} // a map never shrinks
	}
	return len(s.entries)
}

// epoch returns a number that rises when the user may have changed.
func (m *remembered) epoch(userID int64) uint64 {
	return m.all.Load() + m.users[uint64(userID)%userEpochs].Load()
}

// forget makes void what is known about a user; 0 is no user.
func (m *remembered) forget(userID int64) {
	if userID != 0 {
		m.users[uint64(userID)%userEpochs].Add(1)
	}
}

// notice makes void what a call may have changed, as its row of [personal.Operations] says.
func (m *remembered) notice(o personal.Operation, request, response any, err error) {
	if e, ok := errors.AsType[*personal.Error](err); ok {
		m.forget(e.UserID)
		if e.Code != personal.CodeUnavailable && e.Code != personal.CodeInternal {
			return // refused; otherwise the outcome is unknown
		}
	}
	id, all := changedUser(o, request, response)
	if all {
		m.all.Add(1)
	}
	m.forget(id)
}

// changedUser returns the id of the user whom a call may have changed; 0 for none. all
// reports that it may be any user.
func changedUser(o personal.Operation, request, response any) (id int64, all bool) {
	switch o.Changes {
	case personal.ChangesNothing:
		return 0, false
	case personal.ChangesCaller:
		return credentialsIn(request).UserID, false
	case personal.ChangesNamedUser:
		for _, m := range []any{request, response} {
			if id, named := namedUser(m); named {
				return id, false
			}
		}
	case personal.ChangesAll:
		// A result that was lost does not name the user.
		if r, ok := response.(interface{ GetUserId() int64 }); ok && r.GetUserId() != 0 {
			return r.GetUserId(), false
		}
	}
	return 0, true
}

// namedUser returns the user of a message's credentials, or else the one whom it names by an id.
// named reports that it can name one.
func namedUser(message any) (id int64, named bool) {
	if m, ok := message.(interface {
		GetCredentials() *personalv1.Credentials
	}); ok {
		id, named = m.GetCredentials().GetUserId(), true
	}
	if id != 0 {
		return id, true
	}
	switch m := message.(type) {
	case interface{ GetUserId() int64 }:
		return m.GetUserId(), true
	case interface{ GetId() int64 }:
		return m.GetId(), true
	}
	return 0, named
}

// watchedConn is the connection of a [Client]. It sends no request that is malformed, and
// passes every other call and its result to remembered.notice.
type watchedConn struct {
	contractConn
	operations map[string]personal.Operation // by RPC
	client     *Client
}

// Invoke makes one call.
func (c watchedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := checkRequest(ctx, args); err != nil {
		return err
	}
	began := time.Now()
	err := c.contractConn.Invoke(ctx, method, args, reply, opts...)
	c.client.remembered.notice(c.operations[method], args, reply, err)
	c.client.observed(c.operations[method].Name, err, time.Since(began))
	return err
}

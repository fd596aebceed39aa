package accounts_test

import (
	"context"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// confirmation is a second factor that was just confirmed.
type confirmation struct {
	*factor
	former personal.Credentials
	used   string // the code
}

func (f *fixture) confirmed(t *testing.T, login string) confirmation {
	t.Helper()
	c := confirmation{factor: &factor{f: f, in: f.register(t, login).Credentials, login: login}}
	c.former = c.in
	f.clock.Advance(personaltest.CodePeriod)
	c.confirm(t, t.Context())
	c.used = c.code()
	return c
}

// again repeats the confirmation with a pair.
func (c confirmation) again(t *testing.T, pair personal.Credentials, code string) (personal.ConfirmedTwoFactor, error) {
	return c.f.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{Credentials: pair, Code: code})
}

func (c confirmation) wantAgain(t *testing.T, pair personal.Credentials) {
	t.Helper()
	got, err := c.again(t, pair, c.used)
	if err != nil || got.Credentials != c.in || !slices.Equal(got.RecoveryCodes, c.recoveryCodes) {
		t.Errorf("got %d recovery codes, error %v, want the response of the confirmation", len(got.RecoveryCodes), err)
	}
}

// wantEnded checks that the confirmation is not repeated, with either pair.
func (c confirmation) wantEnded(t *testing.T) {
	t.Helper()
	for name, pair := range map[string]personal.Credentials{"former": c.former, "new": c.in} {
		if got, err := c.again(t, pair, c.used); err == nil || got.RecoveryCodes != nil {
			t.Errorf("with the %s pair: got %d recovery codes, error %v, want an error", name, len(got.RecoveryCodes), err)
		}
	}
}

// call calls an operation with a pair and no parameters, but those that it needs to ask for the pair.
func call(ctx context.Context, service any, o personal.Operation, c personal.Credentials) error {
	method := reflect.ValueOf(service).MethodByName(string(o.Name))
	request := reflect.New(method.Type().In(1)).Elem()
	if request.Type() == reflect.TypeFor[personal.Credentials]() {
		request.Set(reflect.ValueOf(c))
	} else {
		request.FieldByName("Credentials").Set(reflect.ValueOf(c))
	}
	if o.Name == personal.OpBeginPasskey {
		request.FieldByName("Purpose").SetString(string(personal.PasskeyProve))
	}
	results := method.Call([]reflect.Value{reflect.ValueOf(ctx), request})
	err, _ := results[len(results)-1].Interface().(error)
	return err
}

func TestRepeat_EveryOperationEndsTheConfirmation(t *testing.T) {
	f := offering(t, testdb.SQLite(t), passkeys)
	for _, o := range personal.Operations() {
		if (!o.Credentials || o.Administration) && o.Name != personal.OpBeginPasskey {
			continue
		}
		t.Run(string(o.Name), func(t *testing.T) {
			c := f.confirmed(t, "former"+strings.ToLower(string(o.Name)))
			c.wantAgain(t, c.former)
			if err := call(t.Context(), f.service, o, c.former); personal.CodeOf(err) != personal.CodeUnauthenticated {
				t.Errorf("with the former pair: got %v, want %s", err, personal.CodeUnauthenticated)
			}
			c.wantEnded(t)

			c = f.confirmed(t, "new"+strings.ToLower(string(o.Name)))
			c.wantAgain(t, c.in)
			if err := call(t.Context(), f.service, o, c.in); personal.CodeOf(err) == personal.CodeUnauthenticated {
				t.Errorf("with the new pair: got %v, want it to be valid", err)
			}
			c.wantEnded(t)
		})
	}
}

func TestRepeat_Confirmation(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := offering(t, url)
		for name, test := range map[string]struct {
			between func(t *testing.T, c confirmation)
			ended   bool
		}{
			"several times, with both pairs": {func(t *testing.T, c confirmation) {
				c.wantAgain(t, c.in)
				c.wantAgain(t, c.former)
			}, false},
			"another code": {func(t *testing.T, c confirmation) {
				_, err := c.again(t, c.former, "000000")
				wantCode(t, err, personal.CodeUnauthenticated)
			}, true},
			"another user's id": {func(t *testing.T, c confirmation) {
				pair := c.former
				pair.UserID++
				_, err := c.again(t, pair, c.used)
				wantCode(t, err, personal.CodeUnauthenticated)
			}, true},
			"a minute":                {func(_ *testing.T, c confirmation) { c.f.clock.Advance(time.Minute) }, true},
			"just less than a minute": {func(_ *testing.T, c confirmation) { c.f.clock.Advance(time.Minute - time.Second) }, false},
			"an account that is disabled": {func(t *testing.T, c confirmation) {
				must(t, f.service.DisableUser(t.Context(), c.in.UserID))
			}, true},
		} {
			t.Run(name, func(t *testing.T) {
				c := f.confirmed(t, strings.NewReplacer(" ", "", ",", "", "'", "").Replace(name))
				test.between(t, c)
				if test.ended {
					c.wantEnded(t)
				} else {
					c.wantAgain(t, c.former)
				}
			})
		}
	})
}

func TestRepeat_ConfirmationTwiceAtOnceIsOne(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := offering(t, url)
		in := f.register(t, "ada").Credentials
		secret, err := f.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: in, Password: goodPassword})
		must(t, err)
		r := personal.ConfirmTwoFactorRequest{Credentials: in, Code: personaltest.Code(secret.Secret, f.clock.Now())}
		responses := make(chan personal.ConfirmedTwoFactor, 2)
		for range cap(responses) {
			go func() {
				confirmed, err := f.service.ConfirmTwoFactor(t.Context(), r)
				if err != nil {
					t.Errorf("confirming: %v", err)
				}
				responses <- confirmed
			}()
		}
		if first, second := <-responses, <-responses; !reflect.DeepEqual(first, second) {
			t.Error("got two responses, want one")
		}
	})
}

func TestRepeat_RecoveryCodes(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := offering(t, url)
		u := f.enrol(t, "ada")
		renew := func(c personal.Credentials, code string) ([]string, error) {
			return f.service.RenewRecoveryCodes(t.Context(), personal.RenewRecoveryCodesRequest{Credentials: c, Password: goodPassword, Code: code})
		}
		refresh := func() (c personal.Credentials) {
			t.Helper()
			c, err := f.service.Refresh(t.Context(), u.in)
			must(t, err)
			return c
		}
		used := u.recoveryCode()
		codes, err := renew(u.in, used)
		must(t, err)
		wantAgain := func(c personal.Credentials) {
			t.Helper()
			if again, err := renew(c, used); err != nil || !slices.Equal(again, codes) {
				t.Errorf("got %d codes, error %v, want those of the first response", len(again), err)
			}
		}
		wantAgain(u.in)
		fresh := refresh() // another operation
		wantAgain(fresh)
		wantAgain(u.in)
		u.in, u.recoveryCodes = fresh, codes
		_, err = f.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: u.in, Password: goodPassword})
		wantCode(t, err, personal.CodeTwoFactorOn)
		_, err = renew(u.in, used)
		wantCode(t, err, personal.CodeValidationFailed)

		used = u.recoveryCode()
		codes, err = renew(u.in, used)
		must(t, err)
		wantAgain(u.in)
		f.clock.Advance(time.Minute)
		_, err = renew(u.in, used)
		wantCode(t, err, personal.CodeValidationFailed)
	})
}

// Without a hash of the session, nothing of the response can be read.
func TestRepeat_IsSealed(t *testing.T) {
	f := offering(t, testdb.SQLite(t))
	c := f.confirmed(t, "ada")
	pools, err := dbconn.Open(f.url, dbconn.RequestLimits)
	must(t, err)
	defer pools.Close()
	rows := dump(t, pools)
	for _, secret := range append(slices.Clone(c.recoveryCodes), c.in.UserHash, c.former.UserHash, c.used) {
		if where := append(find(rows, secret), find(rows, hex.EncodeToString([]byte(secret)))...); len(where) > 0 {
			t.Errorf("got a secret in %v, want it nowhere", where)
		}
	}
}

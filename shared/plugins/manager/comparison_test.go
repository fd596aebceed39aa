package manager

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/manager/rehearsal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestSample_IsSpreadOverAllUsers(t *testing.T) {
	for _, test := range []struct {
		lowest, highest int64
		want            int
		among           []int64
	}{
		{lowest: 1, highest: 7, want: 7},
		{lowest: 1, highest: 250, want: 200},
		{lowest: 1, highest: 100_000, want: 200, among: []int64{100_000, 49_999, 4_999}},
		{lowest: 1_000_001, highest: 1_000_250, want: 200}, // all lower ids are free
	} {
		t.Run(fmt.Sprint(test.lowest, " to ", test.highest), func(t *testing.T) {
			searches := 0
			administration := &personaltest.Administration{
				FindUsersFunc: func(_ context.Context, r personal.FindUsersRequest) (page personal.UserPage, _ error) {
					searches++
					id := test.highest
					if r.After > 0 {
						id = min(id, r.After-1)
					}
					for ; id >= test.lowest; id-- {
						if len(page.Users) == r.Limit {
							page.Next = id + 1
							break
						}
						page.Users = append(page.Users, personal.User{ID: id, Login: fmt.Sprint("user-", id)})
					}
					return page, nil
				},
			}
			users, err := sample(t.Context(), administration)
			if err != nil {
				t.Fatal(err)
			}
			ids := map[int64]bool{}
			for _, u := range users {
				ids[u.ID] = true
			}
			if len(users) != test.want || len(ids) != test.want || searches > 2*samplePages {
				t.Errorf("got %d users, %d of them distinct, by %d searches, want %d by %d at most", len(users), len(ids), searches, test.want,
					2*samplePages)
			}
			for _, id := range test.among {
				if !ids[id] {
					t.Errorf("got users %v, want %d among them", ids, id)
				}
			}
		})
	}
}

func TestComparison_JudgesAnswers(t *testing.T) {
	ok, internal, gone := answer{rehearsal.ErrorCode: "none", "email": "a"}, answer{rehearsal.ErrorCode: "internal"}, answer{rehearsal.ErrorCode: "unauthenticated"}
	for name, test := range map[string]struct {
		before, new, after answer
		want               rpc.RehearsalOutcome
	}{
		"the same":                               {ok, ok, ok, rpc.RehearsalPassed},
		"another value":                          {ok, answer{rehearsal.ErrorCode: "none", "email": "b"}, ok, rpc.RehearsalDiffers},
		"a refusal":                              {ok, gone, ok, rpc.RehearsalDiffers},
		"an internal error":                      {ok, internal, ok, rpc.RehearsalFailed},
		"an internal error instead of a refusal": {gone, internal, gone, rpc.RehearsalFailed},
		"an internal error while the account changes": {ok, internal, gone, rpc.RehearsalFailed},
		"an internal error of both":                   {internal, internal, internal, rpc.RehearsalPassed},
		"an operation that the old one lacks":         {answer{}, internal, answer{}, rpc.RehearsalPassed},
	} {
		t.Run(name, func(t *testing.T) {
			c := comparison{differences: map[rpc.Difference]int{}, known: map[rpc.Difference]bool{}}
			c.add(personal.OpUser, test.before, test.new, test.after)
			if got := c.result(); got.Outcome != test.want {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
}

func TestComparison_TimeIsUp(t *testing.T) {
	for accounts, want := range map[int]rpc.RehearsalOutcome{29: rpc.RehearsalSkipped, 30: rpc.RehearsalPassed} {
		c := comparison{count: 1 + 3*accounts}
		if got := c.lateResult(601, time.Minute); got.Outcome != want {
			t.Errorf("after %d accounts: got %+v, want %s", accounts, got, want)
		}
	}
}

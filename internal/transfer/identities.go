package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

func exportIdentities(a StoredAccount) (list []personal.LinkedIdentity) {
	for _, i := range a.Identities {
		list = append(list, i.Described())
	}
	return list
}

var errNoIdentities = errors.New("identities: not what an export writes")

// readIdentities reads the identities of a row. Rules and errors are those of readPasskeys.
func readIdentities(value json.RawMessage) (list []accounts.StoredIdentity, err error) {
	if value == nil || string(value) == "null" {
		return nil, nil
	}
	var in []personal.LinkedIdentity
	if !decodeExported(value, &in) || len(in) == 0 {
		return nil, errNoIdentities
	}
	if len(in) > personal.MaxIdentities {
		return nil, fmt.Errorf("identities: an account has at most %d", personal.MaxIdentities)
	}
	for n, e := range in {
		i := accounts.StoredIdentity{
			Identity: e.Identity, Linked: e.Linked.UTC().Truncate(time.Microsecond), LastUsed: e.LastUsed.UTC().Truncate(time.Microsecond),
		}
		err := i.Check()
		switch {
		case err != nil:
		case !storableTime(i.Linked), !i.LastUsed.IsZero() && !storableTime(i.LastUsed):
			err = errors.New("a time is missing or out of range")
		case slices.ContainsFunc(list, func(other accounts.StoredIdentity) bool { return other.Identity == i.Identity }):
			err = errors.New("it is repeated")
		}
		if err != nil {
			return nil, fmt.Errorf("identities: number %d: %w", n+1, err)
		}
		list = append(list, i)
	}
	return list, nil
}

package transfer

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// RowHash is the hash of a row as the file has it.
type RowHash struct {
	Line             int
	Hash, Salt, Form string
}

// FindHash returns the hash of the first row with a login, or with an e-mail. It is an error if
// there is none.
func (m *Import) FindHash(ctx context.Context, in Input, login string) (RowHash, error) {
	from, err := in.records(ctx, m)
	if err != nil {
		return RowHash{}, err
	}
	defer from.close()
	for {
		r, err := from.next()
		if errors.Is(err, io.EOF) {
			return RowHash{}, errors.New("no row has this login or e-mail")
		}
		if err != nil {
			return RowHash{}, err
		}
		for _, name := range []string{r.columns[columnLogin].Text, r.renamed, r.columns[columnEmail].Text} {
			if name != "" && strings.EqualFold(personal.Typed(name), personal.Typed(login)) {
				return RowHash{r.line, r.columns[columnHash].Text, r.columns[columnSalt].Text, r.columns[columnForm].Text}, nil
			}
		}
	}
}

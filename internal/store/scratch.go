package store

import (
	"context"
	"hash/maphash"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// work is what a scratch process has sent to its database since the last [Store.Work].
type work struct {
	mu         sync.Mutex
	paused     bool
	statements int
	known      map[uint64]bool // digests of texts without their values, whose plan was read
	fresh      []string        // statements whose plan was not
	seed       maphash.Seed
}

func newWork() *work { return &work{known: map[uint64]bool{}, seed: maphash.MakeSeed()} }

// note counts the statements in a text, which semicolons separate.
func (w *work) note(_ context.Context, text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused {
		return nil
	}
	var digest maphash.Hash
	digest.SetSeed(w.seed)
	begin, quoted := 0, false
	end := func(at int) {
		w.statements++
		if sum := digest.Sum64(); !w.known[sum] {
			w.known[sum] = true
			w.fresh = append(w.fresh, text[begin:at])
		}
		begin = at + 1
		digest.Reset()
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted, '0' <= c && c <= '9': // a value
		case c == ';':
			end(i)
		default:
			_ = digest.WriteByte(c)
		}
	}
	if begin < len(text) {
		end(len(text))
	}
	return nil
}

// pause lets no statement count until the function that it returns is called. Nothing else runs in a scratch
// process then.
func (w *work) pause() (resume func()) {
	set := func(paused bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.paused = paused
	}
	set(true)
	return func() { set(false) }
}

// placeholder stands for a value that is not in the text. In a literal it does no harm.
var placeholder = regexp.MustCompile(`\?[0-9]*|\$[0-9]+`)

// scanned is a step of a plan that reads a whole table, or a whole index of it.
var scanned = regexp.MustCompile(`^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?`)

// tableOf finds the table that a statement gives an alias.
func tableOf(statement, alias string) string {
	named := regexp.MustCompile(`\b(personal_\w+)"?(?: AS)? "?` + alias + `\b`).FindStringSubmatch(statement)
	if named == nil {
		return alias
	}
	return named[1]
}

// Work returns how many statements a scratch process has sent since the last call, and the
// tables that new ones among them scan, each once, by SQLite's EXPLAIN QUERY PLAN. An index of a part of the rows
// is meant to be read as a whole.
func (s *Store) Work(ctx context.Context) (statements int, scans []string, err error) {
	defer s.work.pause()()
	s.work.mu.Lock()
	statements, fresh := s.work.statements, s.work.fresh
	s.work.statements, s.work.fresh = 0, nil
	s.work.mu.Unlock()
	var partial []string
	if len(fresh) > 0 {
		err := s.write.NewRaw("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'").Scan(ctx, &partial)
		if err != nil {
			return 0, nil, wrap(ctx, "list the indexes", err)
		}
	}
	for _, statement := range fresh {
		verb, _, _ := strings.Cut(strings.TrimLeft(statement, " \n\t"), " ")
		if !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}, strings.ToUpper(verb)) {
			continue
		}
		var plan []struct {
			ID, Parent, NotUsed int
			Detail              string
		}
		if err := s.write.NewRaw("EXPLAIN QUERY PLAN "+placeholder.ReplaceAllString(statement, "NULL")).Scan(ctx, &plan); err != nil {
			return 0, nil, wrap(ctx, "explain a statement", err)
		}
		for _, step := range plan {
			if m := scanned.FindStringSubmatch(step.Detail); m != nil {
				table := tableOf(statement, m[1])
				if strings.HasPrefix(table, "personal_") && !slices.Contains(scans, table) && !slices.Contains(partial, m[2]) {
					scans = append(scans, table)
				}
			}
		}
	}
	slices.Sort(scans)
	return statements, scans, nil
}

// Rows returns how many rows each table of the SQLite file of a scratch process has.
func (s *Store) Rows(ctx context.Context) (map[string]int64, error) {
	defer s.work.pause()()
	var tables, counts []string
	err := s.scan(ctx, "list the tables", s.read.NewRaw("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'personal!_%' ESCAPE '!'"), &tables)
	if err != nil || len(tables) == 0 {
		return nil, err
	}
	for _, t := range tables {
		counts = append(counts, "SELECT '"+t+"' AS name, count(*) AS n FROM "+t)
	}
	var rows []struct {
		Name string
		N    int64
	}
	if err := s.scan(ctx, "count rows", s.read.NewRaw(strings.Join(counts, " UNION ALL ")), &rows); err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for _, r := range rows {
		all[r.Name] = r.N
	}
	return all, nil
}

package rehearsal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// finding is a difference between two versions, or a failure of the new one.
type finding struct {
	rpc.Difference
	check    string
	failed   bool
	waivable bool // a declared change waives it
	reason   string
}

// comparison compares what two versions have done. It keeps no values but random texts.
type comparison struct {
	known    map[rpc.Difference]bool // fields that the old version has set
	renamed  map[string]string       // random texts of the old version by those of the new one
	former   map[string]string       // the reverse
	counts   map[string]int          // comparisons by check
	findings []finding
}

func newComparison() *comparison {
	return &comparison{known: map[rpc.Difference]bool{}, renamed: map[string]string{}, former: map[string]string{}, counts: map[string]int{}}
}

// transcripts compares the lines of an act.
func (c *comparison) transcripts(old, new []line) {
	for _, l := range old {
		for path := range l.answer {
			c.known[rpc.Difference{Operation: string(l.operation), Field: kind(path)}] = true
		}
	}
	byCheck := func(lines []line) (names []string, all map[string][]line) {
		all = map[string][]line{}
		for _, l := range lines {
			if all[l.check] == nil {
				names = append(names, l.check)
			}
			all[l.check] = append(all[l.check], l)
		}
		return names, all
	}
	names, before := byCheck(old)
	_, after := byCheck(new)
	for _, name := range names {
		for i, l := range before[name] {
			if i >= len(after[name]) || after[name][i].operation != l.operation {
				if len(after[name]) > 0 { // else it was not played
					c.add(l.check, string(l.operation), "", false, "the script took another way")
				}
				break
			}
			c.line(l, after[name][i])
		}
	}
	c.statements(old, new)
}

// statements compares how many statements each operation has sent in an act, in the calls that were played one by one
// and succeeded: a few more in each add up.
func (c *comparison) statements(old, new []line) {
	if len(old) != len(new) { // the script took another way
		return
	}
	const check = "statements"
	before, after := map[string]int{}, map[string]int{}
	for i := range old {
		if old[i].answer[ErrorCode] != "" {
			continue
		}
		op := cmp.Or(string(old[i].operation), "work")
		before[op] += old[i].statements
		after[op] += new[i].statements
	}
	for _, op := range slices.Sorted(maps.Keys(before)) {
		c.counts[check]++
		if after[op] > before[op]*5/4+10 {
			c.add(check, op, "statements", true, fmt.Sprintf("%d statements in all calls instead of %d", after[op], before[op]))
		}
	}
}

func (c *comparison) add(check, operation, field string, waivable bool, reason string) {
	c.findings = append(c.findings, finding{Difference: rpc.Difference{Operation: operation, Field: field}, check: check, waivable: waivable, reason: reason})
}

func (c *comparison) line(old, new line) {
	c.counts[old.check]++
	op := cmp.Or(string(old.operation), "work")
	bystander := strings.HasPrefix(old.check, bystanders)
	if was, is := old.answer[ErrorCode], new.answer[ErrorCode]; was != is {
		c.add(old.check, op, ErrorCode, false, fmt.Sprintf("%s instead of %s", cmp.Or(is, "success"), cmp.Or(was, "success")))
		c.findings[len(c.findings)-1].failed = is == string(personal.CodeInternal) || bystander
		return
	}
	refused := old.answer[ErrorCode] != ""
	for _, path := range c.differing(old.answer, new.answer) {
		d := rpc.Difference{Operation: op, Field: Field(path)}
		if c.known[rpc.Difference{Operation: op, Field: kind(path)}] {
			c.add(old.check, op, d.Field, !refused && !bystander, "another value")
			c.findings[len(c.findings)-1].failed = bystander
		}
	}
	c.list(old.check, op, "mail", old.mails, new.mails)
	c.list(old.check, op, "event", old.events, new.events)
	if !slices.Equal(old.erased, new.erased) {
		c.add(old.check, op, "erased", false, "other accounts were erased")
	}
	for _, table := range slices.Sorted(maps.Keys(old.rows)) {
		if is, ok := new.rows[table]; ok && is != old.rows[table] {
			c.add(old.check, "rows", table, true, fmt.Sprintf("%+d rows instead of %+d", is, old.rows[table]))
		}
	}
	if new.statements > 2*old.statements+3 {
		c.add(old.check, op, "statements", true, fmt.Sprintf("%d statements instead of %d", new.statements, old.statements))
	}
	for _, table := range new.scans {
		_, has := old.rows[table] // 0.2.0 counts the rows of all tables, also of those that a newer version has added
		if !slices.Contains(old.scans, table) && (has || old.rows == nil) {
			c.add(old.check, op, "statements", true, "it scans "+table)
		}
	}
}

// list compares mails or events of a step.
func (c *comparison) list(check, op, what string, old, new []Answer) {
	if len(old) != len(new) {
		c.add(check, op, what, len(new) > len(old), fmt.Sprintf("%d instead of %d", len(new), len(old)))
		return
	}
	for i := range old {
		// Of several that are alike but for random texts no one knows which is which.
		if len(old) > 1 {
			alike := old[i].masked()
			if (i > 0 && alike == old[i-1].masked() || i+1 < len(old) && alike == old[i+1].masked()) && alike == new[i].masked() {
				continue
			}
		}
		if paths := c.differing(old[i], new[i]); len(paths) > 0 {
			c.add(check, op, what, true, "another "+strings.Join(paths, ", "))
		}
	}
}

// differing returns the paths of values that differ, sorted.
func (c *comparison) differing(old, new Answer) (paths []string) {
	all := Answer{}
	maps.Copy(all, old)
	maps.Copy(all, new)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if !c.same(old[path], new[path]) {
			paths = append(paths, path)
		}
	}
	return paths
}

// same reports whether two texts are equal but for random texts, each of which always stands for the
// same one.
func (c *comparison) same(old, new string) bool {
	if len(old) < shortestRandom || len(new) < shortestRandom {
		return old == new
	}
	if old != new && random.ReplaceAllString(old, "~") != random.ReplaceAllString(new, "~") {
		return false
	}
	from, to := random.FindAllString(old, -1), random.FindAllString(new, -1)
	for i, a := range from {
		b := to[i]
		if len(a) != len(b) || a != b && (isWord(a) || isWord(b)) {
			return false
		}
		if known, ok := c.renamed[a]; ok && known != b {
			return false
		}
		if known, ok := c.former[b]; ok && known != a {
			return false
		}
		c.renamed[a], c.former[b] = b, a
	}
	return true
}

// isWord reports whether a long text is no random one, but the name of something: tokens and the like
// have digits or capitals.
func isWord(text string) bool {
	return !strings.ContainsAny(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

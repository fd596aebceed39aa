package password

import (
	"cmp"
	"hash/crc32"
	"maps"
	"slices"
)

// 16 and 32 zero bytes in base64.
const (
	zeroSalt = "AAAAAAAAAAAAAAAAAAAAAA"
	zeroSum  = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

const (
	// Space is the number of digests that draw a class.
	Space = 1 << 32
	// maxClasses have intervals; what further ones store is added to theirs, in equal parts.
	maxClasses = 64
	// minGrowth is by how much a class must have too little to get another interval: imports that
	// are repeated daily would else add one each.
	minGrowth = Space / 1000
)

// Class returns the class of a stored hash: a hash with the same format, costs and lengths that no
// password matches, so that a comparison with either is the same work. It is "" for the costs of
// new hashes. A hash that waits to be wrapped has the class of the wrapped one. ok is false if no
// password can match the hash.
func (h *Hasher) Class(encoded string) (class string, ok bool) {
	s, err := parse(encoded)
	switch {
	case err != nil || IsUnusable(encoded):
		return "", false
	case IsBare(encoded):
		s = s.asWrapped(encoded, h.params)
	case s.made != nil && s.made.params == h.params:
		return "", true
	}
	return s.class, true
}

// Interval holds the digests that draw a class: Width of them from Start on. Those after them, up to
// Laid, have drawn it before, and draw the costs of new hashes now.
type Interval struct {
	Class              string
	Start, Width, Laid int64
}

// Lay returns the intervals, in their order, after stored passwords were counted by class, "" for
// those of new hashes. Intervals shrink to the share that their class has of all passwords. If grow
// is set, because of an import or of other costs of new hashes, a class with less than its share gets
// another interval, where possible of digests that have drawn no class yet. So without grow what a
// digest draws stays, or becomes the costs of new hashes.
func Lay(intervals []Interval, counts map[string]int64, grow bool) []Interval {
	intervals = slices.Clone(intervals)
	missing := shares(counts)
	for i := range slices.Backward(intervals) {
		l := &intervals[i]
		l.Width = min(l.Width, max(missing[l.Class], 0))
		missing[l.Class] -= l.Width
	}
	if grow {
		lacks := func(a, b string) int { return cmp.Or(-cmp.Compare(missing[a], missing[b]), cmp.Compare(a, b)) }
		for _, class := range slices.SortedFunc(maps.Keys(missing), lacks) {
			if n := missing[class]; n >= minGrowth || n > 0 && !draws(intervals, class) {
				intervals = layFreed(layFresh(intervals, class, &n), class, &n)
			}
		}
	}
	return joined(intervals)
}

// joined joins neighbours that draw the same: imports that are repeated would add intervals without end.
func joined(intervals []Interval) (all []Interval) {
	for _, l := range intervals {
		if l.Laid == 0 {
			continue
		}
		if n := len(all); n > 0 {
			last := &all[n-1]
			if last.Start+last.Laid == l.Start && (l.Width == 0 || last.Class == l.Class && last.Width == last.Laid) {
				last.Width += l.Width
				last.Laid += l.Laid
				continue
			}
		}
		all = append(all, l)
	}
	return all
}

// shares returns how many digests draw each class but that of new hashes.
func shares(counts map[string]int64) map[string]int64 {
	var all, further float64
	var classes []string
	for class, n := range counts {
		all += float64(n)
		if class != "" && n > 0 {
			classes = append(classes, class)
		}
	}
	mixed := func(class string) uint32 { return crc32.ChecksumIEEE([]byte(class)) } // else random rounds would count from the lowest on
	slices.SortFunc(classes, func(a, b string) int {
		return cmp.Or(-cmp.Compare(counts[a], counts[b]), cmp.Compare(mixed(a), mixed(b)), cmp.Compare(a, b))
	})
	most := classes[:min(len(classes), maxClasses)]
	for _, class := range classes[len(most):] {
		further += float64(counts[class])
	}
	shares := map[string]int64{}
	for _, class := range most {
		shares[class] = int64((float64(counts[class]) + further/float64(len(most))) / all * Space)
	}
	return shares
}

func draws(intervals []Interval, class string) bool {
	return slices.ContainsFunc(intervals, func(l Interval) bool { return l.Class == class && l.Width > 0 })
}

// layFresh gives a class up to n of the digests that no interval was laid on.
func layFresh(intervals []Interval, class string, n *int64) []Interval {
	var laid []Interval
	end := int64(0)
	for _, l := range append(slices.Clone(intervals), Interval{Start: Space}) {
		if width := min(*n, l.Start-end); width > 0 {
			laid = append(laid, Interval{Class: class, Start: end, Width: width, Laid: width})
			*n -= width
		}
		end = max(end, l.Start+l.Laid)
	}
	return inOrder(append(laid, intervals...))
}

// layFreed gives a class up to n of the digests that an interval has been shrunk by, those first that
// were so for longest.
func layFreed(intervals []Interval, class string, n *int64) []Interval {
	var laid []Interval
	for i := range intervals {
		l := &intervals[i]
		if width := min(*n, l.Laid-l.Width); width > 0 {
			l.Laid -= width
			laid = append(laid, Interval{Class: class, Start: l.Start + l.Laid, Width: width, Laid: width})
			*n -= width
		}
	}
	return inOrder(append(laid, intervals...))
}

func inOrder(intervals []Interval) []Interval {
	slices.SortFunc(intervals, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	return intervals
}

// drawn is a part of the digests, up to end, and the hash whose work it draws.
type drawn struct {
	start, end int64
	hash       stored
}

// SetClasses sets the intervals from which [Hasher.VerifyDummy] draws; a digest in none draws the
// costs of new hashes. It is safe for concurrent use.
func (h *Hasher) SetClasses(intervals []Interval) {
	list := []drawn{}
	for _, l := range intervals {
		if s, err := parse(l.Class); err == nil { // else a newer version knows it
			list = append(list, drawn{l.Start, l.Start + l.Width, s})
		}
	}
	h.drawn.Store(&list)
}

// draw returns the hash whose work a digest draws.
func (h *Hasher) draw(digest uint32) stored {
	for _, d := range *h.drawn.Load() {
		if int64(digest) >= d.start && int64(digest) < d.end {
			return d.hash
		}
	}
	return h.dummy.stored()
}

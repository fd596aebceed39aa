package dump

// MaxDepth is how deep objects and lists may be nested in JSON that an import reads.
const MaxDepth = 100

// depth counts the levels of JSON that comes in pieces.
type depth struct {
	levels          int
	quoted, escaped bool
}

// exceeds reports whether the next piece has more than MaxDepth levels.
func (d *depth) exceeds(piece []byte) bool {
	for _, c := range piece {
		switch {
		case d.escaped:
			d.escaped = false
		case d.quoted:
			d.quoted, d.escaped = c != '"', c == '\\'
		case c == '"':
			d.quoted = true
		case c == '{' || c == '[':
			if d.levels++; d.levels > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			d.levels--
		}
	}
	return false
}

// TooDeep reports whether JSON has more than [MaxDepth] levels.
func TooDeep(json []byte) bool { return new(depth).exceeds(json) }

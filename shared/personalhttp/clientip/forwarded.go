package clientip

import (
	"net/netip"
	"strings"
)

// forwardedFor returns the "for" of every element of Forwarded (RFC 7239), first
// to last; the zero Addr where it is missing, unknown, obfuscated or cannot be
// read.
//
// Each line is read for itself, and one that breaks the grammar is a single
// unreadable hop: a quote that a client left open must not swallow what a proxy
// wrote behind it.
func forwardedFor(lines []string) []netip.Addr {
	var hops []netip.Addr
	for _, line := range lines {
		nodes, ok := ForwardedValues(line, "for")
		if !ok {
			nodes = []string{""}
		}
		for _, node := range nodes {
			hops = append(hops, parseNode(node))
		}
	}
	return hops
}

// ForwardedValues returns a parameter of every element of a line of [Forwarded],
// first to last, empty where an element lacks it; false if the line breaks the
// grammar.
func ForwardedValues(s, parameter string) (values []string, ok bool) {
	value, named := "", false
	for {
		s = strings.TrimLeft(s, " \t")
		if name, text, rest, found := cutPair(s); found {
			if strings.EqualFold(name, parameter) {
				if named {
					return nil, false
				}
				value, named = text, true
			}
			s = strings.TrimLeft(rest, " \t")
		}
		switch {
		case s == "":
			return append(values, value), true
		case s[0] == ',':
			values, value, named = append(values, value), "", false
		case s[0] != ';':
			return nil, false
		}
		s = s[1:]
	}
}

// cutPair cuts name=value off s; the value is a token or a quoted string.
func cutPair(s string) (name, value, rest string, found bool) {
	name, rest = cutToken(s)
	if name == "" || !strings.HasPrefix(rest, "=") {
		return "", "", s, false
	}
	rest = rest[1:]
	if strings.HasPrefix(rest, `"`) {
		value, rest, found = cutQuoted(rest)
		return name, value, rest, found
	}
	value, rest = cutToken(rest)
	return name, value, rest, value != ""
}

func cutToken(s string) (token, rest string) {
	end := strings.IndexFunc(s, notInToken)
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

// notInToken is by RFC 9110, section 5.6.2, but lets a colon pass: proxies
// often leave the quotes off an address with a port.
func notInToken(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/;<=>?@[\]{}`, r)
}

// cutQuoted cuts a quoted string, of which s begins with the quote.
func cutQuoted(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

// Package urlencoded reads application/x-www-form-urlencoded by the rules of browsers (WHATWG URL
// Standard, section 5.1): only & separates, and a % that begins no escape is a %. Package net/url
// refuses both, which some clients send.
package urlencoded

import (
	"net/url"
	"strings"
)

// Parse returns the values by name. It accepts every text; names and values need not be UTF-8.
func Parse(s string) url.Values {
	values := url.Values{}
	for pair := range strings.SplitSeq(s, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name = Decode(name)
		values[name] = append(values[name], Decode(value))
	}
	return values
}

// Decode returns the text of an encoded name or value.
func Decode(s string) string {
	if !strings.ContainsAny(s, "+%") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		switch high, low := digit(s, i+1), digit(s, i+2); {
		case s[i] == '+':
			b.WriteByte(' ')
		case s[i] == '%' && high >= 0 && low >= 0:
			b.WriteByte(byte(high<<4 | low))
			i += 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// digit returns the value of the hexadecimal digit at i, or -1 if there is none.
func digit(s string, i int) int {
	if i >= len(s) {
		return -1
	}
	switch c := s[i]; {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

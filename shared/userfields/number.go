package userfields

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// maxInteger is the largest integer that every JSON reader keeps exact: 2^53−1,
// RFC 8259, section 6.
const maxInteger = 1<<53 - 1

// numberLiteral is a number as in RFC 8259, section 6, in its parts. A text that
// stands for a number is written the same way.
var numberLiteral = regexp.MustCompile(`\A(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?\z`)

// readInteger reads a number that is integral, however it is written: 42, 42.0,
// 4.2e1. It works on the digits, because a float64 would round and 1e999999999
// written out would not fit into memory.
func readInteger(s string) (any, personal.FieldErrorCode) {
	part := numberLiteral.FindStringSubmatch(s)
	if part == nil {
		return nil, personal.FieldErrorInvalidType
	}
	sign, whole, fraction := part[1], part[2], part[3]
	// No exponent is 0, and one out of range the nearest int32: as good, since no
	// literal has as many digits.
	exponent, _ := strconv.ParseInt(part[4], 10, 32)
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= int64(len(fraction))
	significant := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(significant))

	switch {
	case significant == "":
		return int64(0), ""
	case exponent < 0:
		return nil, personal.FieldErrorInvalidType
	case int64(len(significant))+exponent > int64(len("9007199254740991")):
		return nil, personal.FieldErrorOutOfRange
	}
	n, err := strconv.ParseInt(sign+significant+strings.Repeat("0", int(exponent)), 10, 64)
	if err != nil || n < -maxInteger || n > maxInteger {
		return nil, personal.FieldErrorOutOfRange
	}
	return n, ""
}

// readNumber reads a finite float64.
func readNumber(s string) (any, personal.FieldErrorCode) {
	if !numberLiteral.MatchString(s) {
		return nil, personal.FieldErrorInvalidType
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(n, 0) {
		return nil, personal.FieldErrorOutOfRange
	}
	return n, ""
}

package rehearsal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/cms-personal/personal/shared/personal"
)

// ErrorCode is the path of the code of a call that was refused.
const ErrorCode = "error_code"

// Answer has the values of a response that are set, as texts by their paths.
type Answer map[string]string

// AnswerOf returns the values of a response, or of a refusal: its code, and those of its field
// errors.
func AnswerOf(response any, err error) Answer {
	a := Answer{}
	var refused *personal.Error
	switch {
	case err == nil:
		a.flatten("", response)
	case errors.As(err, &refused):
		a.flatten("field_errors", refused.FieldErrors)
		a.flatten("retry_after", refused.RetryAfter)
		a.flatten("user_id", refused.UserID)
		a[ErrorCode] = string(refused.Code)
	default:
		a[ErrorCode] = string(personal.CodeOf(err))
	}
	return a
}

// flatten sets the values of a response, as JSON has them.
func (a Answer) flatten(path string, v any) {
	data, err := json.Marshal(v)
	if err != nil { // no type of the contract
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var decoded any
	if decoder.Decode(&decoded) == nil {
		a.set(path, decoded)
	}
}

func (a Answer) set(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if _, err := strconv.Atoi(name); err == nil {
				a.set(path+"["+name+"]", value)
				continue
			}
			a.set(strings.TrimPrefix(path+"."+snakeCase(name), "."), value)
		}
	case []any:
		for i, value := range v {
			a.set(path+element(i, value), value)
		}
	default:
		text, isText := v.(string)
		if !isText {
			text = fmt.Sprint(v)
		}
		switch {
		case v == nil || text == "" || slices.Contains(unset, text) && !userField.MatchString(path):
		case isText:
			a[path] = text
		default: // it is no text of the same signs
			a[path] = fmt.Sprintf("%T %s", v, text)
		}
	}
}

// unset are the texts of values that are not set.
var unset = []string{"0", "false", "0001-01-01T00:00:00Z"}

// element names an element of a list: user fields by their names, others by their places.
func element(i int, v any) string {
	if object, ok := v.(map[string]any); ok {
		if name, ok := object["Name"].(string); ok {
			return "." + name
		}
	}
	return "[" + strconv.Itoa(i) + "]"
}

var places = regexp.MustCompile(`\[\d+\]`)

// Field returns the path of a value without places in lists.
func Field(path string) string {
	if strings.Contains(path, "[") {
		path = places.ReplaceAllString(path, "")
	}
	return strings.TrimPrefix(path, ".")
}

var userField = regexp.MustCompile(`\bfields\.[^.]+`)

// kind returns the field of a path, of all user fields the same.
func kind(path string) string { return userField.ReplaceAllString(Field(path), "fields") }

func snakeCase(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('_')
		}
		lower = !unicode.IsUpper(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

package personalhttp

import (
	"io/fs"
	"net/http"
	"slices"

	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/messages"
)

// texts are the messages of one language. A text must not reveal more than the code that it
// is for. Its key is one of:
//
//	success.OPERATION               after a POST, by the route's name; other operations have no message
//	success.unverified              after a registration whose e-mail must be confirmed first
//	code.CODE
//	refused.plain_http              a request without encryption; the address to use follows
//	field.OPERATION.PARAMETER.CODE  a parameter that means something else in this operation
//	field.PARAMETER.CODE            a parameter of the contract
//	type.TYPE.CODE                  a user field of the type
//	field.CODE                      any other parameter or user field
//	field.other                     a code that a newer module added
type texts map[string]string

// readTexts returns the messages of the needed languages, and of those of the site's own, which may be nil. For texts
// that a language lacks, whose keys it returns, it has those of another one.
func readTexts(needed []string, fallback string, own fs.FS) (_ map[string]texts, missing map[string][]string, err error) {
	all, missing, err := localtext.Source{BuiltIn: []fs.FS{messages.Files}, Own: own, Needed: needed, Default: fallback}.Read()
	if err != nil {
		return nil, nil, err
	}
	languages := make(map[string]texts, len(all))
	for locale, read := range all {
		languages[locale] = make(texts, len(read))
		for key, text := range read {
			languages[locale][key] = text.String() // none has a number
		}
	}
	return languages, missing, nil
}

// SuccessMessage returns the API's message after a successful POST to an operation, such as
// "profile", in the language of the request's call. It is empty if the operation has
// no message or does not exist.
func (h *Handler) SuccessMessage(r *http.Request, operation string) string {
	return h.texts(r)["success."+operation]
}

// requestSuccess returns the message for a success of the request.
func (h *Handler) requestSuccess(r *http.Request, route *route) string {
	if route == nil || r.Method != http.MethodPost {
		return ""
	}
	return h.SuccessMessage(r, route.name)
}

// fieldError returns the message about a parameter of an operation, "" for that of a page: about a
// user field by its pattern message and its type, which fields know.
func (t texts) fieldError(operation, name string, code personal.FieldErrorCode, fields []personal.Field, l *labels) string {
	keys := []string{"field." + operation + "." + name + "." + string(code), "field." + name + "." + string(code)}
	if i := slices.IndexFunc(fields, func(f personal.Field) bool { return f.Name == name }); i >= 0 {
		if own := l.choose(fields[i].PatternMessage, ""); own != "" && code == personal.FieldErrorInvalidFormat {
			return own
		}
		keys = append(keys, "type."+string(fields[i].Type)+"."+string(code))
	}
	for _, key := range append(keys, "field."+string(code)) {
		if text, ok := t[key]; ok {
			return text
		}
	}
	return t["field.other"]
}

package personalhttp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/internal/urlencoded"
	"github.com/cms-personal/personal/shared/personal"
)

// The limits of a body (HTTP contract, section 1).
const (
	maxBody  = 64 << 10 // bytes
	maxParts = 256      // of a multipart form
	maxNames = 256      // different ones, in JSON at any depth
	maxDepth = 32       // levels of JSON; parameters need 2
)

// The media types that a body may have.
const (
	mediaJSON      = "application/json"
	mediaForm      = "application/x-www-form-urlencoded"
	mediaMultipart = "multipart/form-data"
)

// params are a request's parameters by name.
type params map[string]personal.Input

// without returns a copy without the named parameters; never nil.
func (p params) without(names ...string) map[string]personal.Input {
	rest := maps.Clone(p)
	for _, name := range names {
		delete(rest, name)
	}
	return rest
}

// takeTexts removes the named parameters and returns the texts of those that were sent.
// A list or an object is malformed.
func (p params) takeTexts(names []string) (texts map[string]string, err error) {
	for _, name := range names {
		in, sent := p[name]
		if !sent {
			continue
		}
		delete(p, name)
		switch in.Kind {
		case personal.InputUnset:
		case personal.InputText, personal.InputNumber, personal.InputBoolean:
			if texts == nil {
				texts = make(map[string]string, len(names))
			}
			texts[name] = in.Text
		default:
			err = malformed(errors.New("a transient parameter is a list or an object"))
		}
	}
	return texts, err
}

func malformed(cause error) error {
	return personal.NewError(personal.CodeMalformedRequest, cause)
}

func unsupported(reason string) error {
	return personal.NewError(personal.CodeUnsupportedMediaType, errors.New(reason))
}

// limitReading sets a deadline for reading the body, unless the server's own is
// stricter. Call release when the body has been read: a deadline that passes later
// would cancel the request's context. After a failed read the deadline stays, so that
// the server does not wait for the rest either.
func (h *Handler) limitReading(w http.ResponseWriter, r *http.Request) (release func()) {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	stricter := server != nil && server.ReadTimeout > 0 && server.ReadTimeout <= h.options.Timeout
	if !hasBody(r) || stricter {
		return func() {}
	}
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(h.options.Timeout)) != nil {
		return func() {} // a writer without deadlines, as in tests: the server's own limits apply
	}
	return func() { _ = c.SetReadDeadline(time.Time{}) }
}

func hasBody(r *http.Request) bool {
	return r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
}

// readParams reads the parameters from the body. The query string is never read.
// Codes, in the order of the checks: unsupported_media_type, too_large,
// malformed_request. A request without a body has no parameters, whatever its
// Content-Type. It returns the body, too, if that is JSON.
func readParams(w http.ResponseWriter, r *http.Request) (p params, object []byte, err error) {
	if !hasBody(r) {
		return params{}, nil, nil
	}
	body := bufio.NewReader(r.Body)
	if r.ContentLength < 0 { // chunked: only reading shows whether there is a body
		if _, err := body.Peek(1); err == io.EOF {
			return params{}, nil, nil
		}
	}
	mediaType, boundary, err := parseContentType(r.Header)
	if err != nil {
		return nil, nil, err
	}
	data, err := readAll(body, r.ContentLength)
	if err != nil {
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // instead of reading the rest of the body
		}
		return nil, nil, err
	}
	switch mediaType {
	case mediaJSON:
		data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, which RFC 8259, section 8.1, lets us ignore
		p, err = decodeJSON(data)
		return p, data, err
	case mediaMultipart:
		p, err = decodeMultipart(data, boundary)
	default:
		p, err = decodeForm(data)
	}
	return p, nil, err
}

// readAll reads the whole body before it is decoded: a body that is both too large
// and malformed is too large.
func readAll(body io.Reader, declared int64) ([]byte, error) {
	if declared > maxBody {
		return nil, personal.NewError(personal.CodeTooLarge, nil)
	}
	data, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if len(data) > maxBody {
		return nil, personal.NewError(personal.CodeTooLarge, nil)
	}
	if err != nil {
		return nil, malformed(fmt.Errorf("reading the body: %w", err))
	}
	return data, nil
}

// parseContentType returns the media type of a body, and the boundary of a multipart
// form. It ignores malformed parameters, such as utf-8 without a name, which many clients send.
func parseContentType(header http.Header) (mediaType, boundary string, err error) {
	types := header.Values("Content-Type")
	encoded := func(encoding string) bool {
		return !slices.Contains([]string{"", "identity"}, strings.ToLower(strings.TrimSpace(encoding)))
	}
	if len(types) != 1 || slices.ContainsFunc(strings.Split(strings.Join(header.Values("Content-Encoding"), ","), ","), encoded) {
		return "", "", unsupported("want one Content-Type and no Content-Encoding")
	}
	mediaType, parameters, err := mime.ParseMediaType(types[0])
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return "", "", unsupported("the Content-Type is malformed")
	}
	switch strings.ToLower(parameters["charset"]) {
	case "", "utf-8", "utf8", "us-ascii": // ASCII is a subset of UTF-8
	default:
		return "", "", unsupported("the charset is not UTF-8")
	}
	switch mediaType {
	case mediaJSON, mediaForm, mediaMultipart:
		return mediaType, parameters["boundary"], nil
	}
	return "", "", unsupported("the media type is not supported")
}

// decodeJSON reads one JSON object. It is stricter than encoding/json, which uses the
// last of several equal names, ignores the case of names and replaces invalid text:
// two readers of the same request could disagree about what it says.
func decodeJSON(body []byte) (params, error) {
	switch {
	case !utf8.Valid(body), !json.Valid(body):
		return nil, malformed(errors.New("not one JSON value in UTF-8"))
	case bytes.TrimLeft(body, " \t\r\n")[0] != '{':
		return nil, malformed(errors.New("the JSON value is not an object"))
	case hasLoneSurrogate(body):
		return nil, malformed(errors.New("unpaired surrogate in JSON"))
	}
	if err := checkNames(body); err != nil {
		return nil, err
	}
	var p params
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, malformed(errors.New("the JSON object cannot be decoded"))
	}
	return p, nil
}

// checkNames returns too_large for more than [maxNames] different names, and
// malformed_request for names of one object that differ only in case and for nesting
// beyond [maxDepth]. body is a valid JSON object. It reads names only, because the
// tokens of encoding/json cost a hundred times as much.
func checkNames(body []byte) error {
	type level struct {
		isObject, isName bool            // isName: the next text is a name
		names            map[string]bool // so far
	}
	var levels []level
	var repeated error
	all := map[string]bool{}
	for i := 0; i < len(body); i++ {
		var top *level
		if len(levels) > 0 {
			top = &levels[len(levels)-1]
		}
		switch body[i] {
		case '"':
			text := body[i : i+textLength(body[i:])]
			i += len(text) - 1
			if !top.isName {
				continue
			}
			name := unquote(text)
			if all[name] = true; len(all) > maxNames {
				return personal.NewError(personal.CodeTooLarge, nil)
			}
			key := foldCase(name)
			if top.names[key] {
				repeated = malformed(errors.New("repeated name in a JSON object"))
			}
			if top.names == nil {
				top.names = map[string]bool{}
			}
			top.names[key], top.isName = true, false
		case ',':
			top.isName = top.isObject
		case '{', '[':
			if len(levels) == maxDepth {
				return malformed(errors.New("JSON nested too deeply"))
			}
			isObject := body[i] == '{'
			levels = append(levels, level{isObject: isObject, isName: isObject})
		case '}', ']':
			levels = levels[:len(levels)-1]
		}
	}
	return repeated
}

// textLength returns the length of the JSON text at the start of b, with its quotes.
func textLength(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// unquote returns the value of a JSON text.
func unquote(text []byte) string {
	if !bytes.ContainsRune(text, '\\') {
		return string(text[1 : len(text)-1])
	}
	var s string
	_ = json.Unmarshal(text, &s) // it is valid
	return s
}

// foldCase returns the same text for all texts that differ only in case.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		lowest := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			lowest = min(lowest, next)
		}
		return lowest
	}, s)
}

// hasLoneSurrogate reports whether an escape of valid JSON is half of a UTF-16 pair
// without the other half: it is not a character and has no UTF-8. In valid JSON
// backslashes occur in strings only.
func hasLoneSurrogate(valid []byte) bool {
	for i := 0; i < len(valid); i++ {
		if valid[i] != '\\' {
			continue
		}
		i++ // the letter of the escape
		switch unit := utf16Unit(valid[i-1:]); {
		case 0xD800 <= unit && unit < 0xDC00:
			if low := utf16Unit(valid[i+5:]); low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 10 // to the end of the pair
		case 0xDC00 <= unit && unit < 0xE000:
			return true
		}
	}
	return false
}

// utf16Unit returns the code unit of the \u escape at the start of b, or 0.
func utf16Unit(b []byte) uint64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	unit, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
	return unit
}

// decodeForm reads application/x-www-form-urlencoded.
func decodeForm(body []byte) (params, error) {
	form := string(body)
	if hasTooManyNames(form) {
		return nil, personal.NewError(personal.CodeTooLarge, nil)
	}
	return formParams(urlencoded.Parse(form))
}

// hasTooManyNames reports whether a form has more than [maxNames] different names, of
// which it keeps no more. It counts before the form is decoded, because each name of a
// decoded form takes many times the bytes that it was sent in.
func hasTooManyNames(form string) bool {
	names := map[string]bool{}
	for pair := range strings.SplitSeq(form, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if names[urlencoded.Decode(name)] = true; len(names) > maxNames {
			return true
		}
	}
	return false
}

// formParams turns a form's values into parameters. A name ending in [] is a
// list; a form that has a name both with and without it is malformed.
func formParams(values map[string][]string) (params, error) {
	p := make(params, len(values))
	for name, texts := range values {
		if !utf8.ValidString(name) || slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) }) {
			return nil, malformed(errors.New("the form is not UTF-8"))
		}
		plain, isList := strings.CutSuffix(name, "[]")
		if _, both := values[plain]; isList && both {
			return nil, malformed(errors.New("a parameter is sent both as a text and as a list"))
		}
		p[plain] = formInput(texts, isList)
	}
	return p, nil
}

// formInput treats empty texts as unset. A repeated name stays repeated even if all
// its texts are empty: whether that is a list or a malformed scalar depends on the
// type of the parameter.
func formInput(texts []string, isList bool) personal.Input {
	if !isList && len(texts) == 1 {
		return personal.Text(texts[0])
	}
	filled := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	switch {
	case !isList:
		return personal.Input{Kind: personal.InputRepeated, List: filled}
	case len(filled) == 0:
		return personal.Input{}
	}
	return personal.Input{Kind: personal.InputList, List: filled}
}

// decodeMultipart reads multipart/form-data (RFC 7578) in memory. Files are
// malformed. More parts than [maxParts] are too large, whether or not a part is
// malformed.
func decodeMultipart(body []byte, boundary string) (params, error) {
	if !isOneMultipart(body, boundary) {
		return nil, malformed(errors.New("data outside the multipart form"))
	}
	values := map[string][]string{}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	var firstErr error // of the parts
	for count := 1; ; count++ {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, malformed(errors.New("the multipart form cannot be decoded"))
		}
		if count > maxParts {
			return nil, personal.NewError(personal.CodeTooLarge, nil)
		}
		name, value, err := readPart(part)
		if err != nil && firstErr == nil {
			firstErr = err
		}
		values[name] = append(values[name], value)
	}
	if firstErr != nil {
		return nil, malformed(firstErr)
	}
	return formParams(values)
}

// isOneMultipart reports whether only line breaks precede the first delimiter and
// follow the last. The standard reader skips any data there.
func isOneMultipart(body []byte, boundary string) bool {
	if boundary == "" {
		return false
	}
	body = append([]byte("\n"), bytes.Trim(body, "\r\n")...)
	delimiter := "\n--" + boundary
	_, after, closed := bytes.Cut(body, []byte(delimiter+"--"))
	return bytes.HasPrefix(body, []byte(delimiter)) && closed && len(bytes.Trim(after, " \t\r\n")) == 0
}

func readPart(part *multipart.Part) (name, value string, err error) {
	dispositions := part.Header["Content-Disposition"]
	if len(dispositions) != 1 {
		return "", "", errors.New("want one Content-Disposition in each part")
	}
	kind, parameters, err := mime.ParseMediaType(dispositions[0])
	name, named := parameters["name"]
	if err != nil || kind != "form-data" || !named {
		return "", "", errors.New("a part has no name")
	}
	if _, isFile := parameters["filename"]; isFile {
		return "", "", errors.New("a part is a file")
	}
	switch strings.ToLower(part.Header.Get("Content-Transfer-Encoding")) {
	case "", "7bit", "8bit", "binary":
	default:
		return "", "", errors.New("a part has a transfer encoding, which RFC 7578 deprecates")
	}
	data, err := io.ReadAll(part)
	if err != nil {
		return "", "", errors.New("a part ends early")
	}
	return name, string(data), nil
}

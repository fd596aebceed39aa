package personalhttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// The bounds of a body: HTTP contract, section 1.
const (
	maxBody  = 64 << 10 // bytes
	maxParts = 256      // of a multipart form
)

func malformed(cause error) error {
	return personal.NewError(personal.CodeMalformedRequest, cause)
}

// limitReading bounds how long the body may take to arrive, unless the server
// itself is stricter. Call release when it has been read: a deadline that ran
// out later would cancel the request's context. When reading fails the deadline
// stays, so that the server does not wait for the rest either.
func (h *Handler) limitReading(w http.ResponseWriter, r *http.Request) (release func()) {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	stricter := server != nil && server.ReadTimeout > 0 && server.ReadTimeout <= h.timeout
	if !hasBody(r) || stricter {
		return func() {}
	}
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(h.timeout)) != nil {
		return func() {} // a writer without deadlines, in a test say: the server's own limits hold
	}
	return func() { _ = c.SetReadDeadline(time.Time{}) }
}

func hasBody(r *http.Request) bool {
	return r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
}

// readParams reads the parameters from the body; the query string is never
// read. Codes, in the order they are judged: unsupported_media_type, too_large,
// malformed_request. A request without a body has no parameters, whatever its
// Content-Type.
func readParams(w http.ResponseWriter, r *http.Request) (params, error) {
	if !hasBody(r) {
		return params{}, nil
	}
	body := bufio.NewReader(r.Body)
	if r.ContentLength < 0 { // sent in chunks: only reading tells whether there is a body
		if _, err := body.Peek(1); err == io.EOF {
			return params{}, nil
		}
	}
	media, err := mediaOf(r.Header)
	if err != nil {
		return nil, err
	}
	data, err := readAll(body, r.ContentLength)
	if err != nil {
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // what is left of the body is not worth reading
		}
		return nil, err
	}
	return media.decode(data)
}

// readAll reads the whole body before any of it is judged: one that is both
// too large and malformed is too large.
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

// media is what a Content-Type says.
type media struct {
	kind     string
	boundary string // multipart only
}

// mediaOf reads the Content-Type of a request that has a body.
func mediaOf(header http.Header) (media, error) {
	types := header.Values("Content-Type")
	if len(types) != 1 || len(header.Values("Content-Encoding")) > 0 {
		return media{}, unsupported(errors.New("one Content-Type and no Content-Encoding wanted"))
	}
	kind, parameters, err := mime.ParseMediaType(types[0])
	if err != nil {
		return media{}, unsupported(errors.New("the Content-Type cannot be read"))
	}
	switch strings.ToLower(parameters["charset"]) {
	case "", "utf-8", "us-ascii": // ASCII is UTF-8 too
	default:
		return media{}, unsupported(errors.New("a charset other than UTF-8"))
	}
	if !slices.Contains(mediaTypes(), kind) {
		return media{}, unsupported(errors.New("another media type"))
	}
	return media{kind: kind, boundary: parameters["boundary"]}, nil
}

// mediaTypes are those that a body may have.
func mediaTypes() []string {
	return []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}
}

func unsupported(cause error) error {
	return personal.NewError(personal.CodeUnsupportedMediaType, cause)
}

func (m media) decode(body []byte) (params, error) {
	switch m.kind {
	case "application/json":
		return decodeJSON(body)
	case "multipart/form-data":
		return decodeMultipart(body, m.boundary)
	}
	return decodeForm(body)
}

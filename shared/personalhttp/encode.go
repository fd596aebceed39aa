package personalhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
)

// answer is what a request came to: an error, or what the operation returned.
type answer struct {
	done done
	data any
	bare bool // data itself is sent
	err  error
}

// content is what is sent of a success.
func (a answer) content(t texts) any {
	if a.bare {
		return a.data
	}
	return envelope{Success: 1, Result: result{Type: "OK", Message: t.done[a.done]}, Data: a.data}
}

func failure(code personal.Code) answer {
	return answer{err: personal.NewError(code, nil)}
}

// envelope is the form of every answer but openapi.json's: HTTP contract, section 2.
type envelope struct {
	Success int    `json:"success"`
	Result  result `json:"result"`
	Data    any    `json:"data,omitempty"`
}

type result struct {
	Type    string                `json:"TYPE"`
	Message string                `json:"MESSAGE,omitempty"`
	Code    personal.Code         `json:"CODE,omitempty"`
	Fields  map[string]FieldError `json:"FIELDS,omitempty"`
}

// write is the one encoder of answers. It returns the status and, for errors,
// the code.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, a answer) (int, personal.Code) {
	var body []byte
	if a.err == nil {
		body, a.err = marshal(a.content(h.texts(r)))
	}
	status, code := http.StatusOK, personal.Code("")
	if a.err != nil {
		x := h.Explain(r, a.err)
		if x.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatInt(x.RetryAfter, 10))
		}
		status, code = x.Status, x.Code
		body, _ = marshal(failed(x)) // texts alone: it cannot fail
	}
	sent := status
	if h.alwaysOK {
		sent = http.StatusOK
	}
	header := w.Header()
	confine(header)
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Add("Vary", "Accept-Language")
	w.WriteHeader(sent)
	_, _ = w.Write(body) // an error means that nobody listens any more
	return status, code
}

// answerPolicy is for a browser that is made to show an answer as a page: it loads
// nothing, and stands in no frame.
const answerPolicy = "default-src 'none'; frame-ancestors 'none'"

// confine sets what every answer has, a preflight's too: it is kept by no cache,
// and taken for nothing but what it is.
func confine(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", answerPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
}

func failed(x Explanation) envelope {
	return envelope{Result: result{Type: "ERROR", Message: x.Message, Code: x.Code, Fields: x.Fields}}
}

// marshal writes JSON without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("writing an answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

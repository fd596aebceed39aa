package personalhttp

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// decodeMultipart reads multipart/form-data (RFC 7578) out of memory. Files
// are refused, and more parts than [maxParts] are too large, whatever else is
// wrong with them.
func decodeMultipart(body []byte, boundary string) (params, error) {
	if !isOneMultipart(body, boundary) {
		return nil, malformed(errors.New("data outside the multipart form"))
	}
	values := map[string][]string{}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	var first error // the first bad part
	for count := 1; ; count++ {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, malformed(errors.New("the multipart form cannot be read"))
		}
		if count > maxParts {
			return nil, personal.NewError(personal.CodeTooLarge, nil)
		}
		name, value, err := readPart(part)
		if err != nil && first == nil {
			first = err
		}
		values[name] = append(values[name], value)
	}
	if first != nil {
		return nil, malformed(first)
	}
	return formParams(values)
}

// isOneMultipart reports whether nothing but line breaks stands before the
// first delimiter and behind the last. The standard reader skips such data.
func isOneMultipart(body []byte, boundary string) bool {
	if boundary == "" {
		return false
	}
	body = append([]byte("\n"), bytes.Trim(body, "\r\n")...)
	delimiter := []byte("\n--" + boundary)
	_, behind, closed := bytes.Cut(body, append(delimiter[:len(delimiter):len(delimiter)], "--"...))
	return bytes.HasPrefix(body, delimiter) && closed && len(bytes.Trim(behind, " \t\r\n")) == 0
}

func readPart(part *multipart.Part) (name, value string, err error) {
	dispositions := part.Header["Content-Disposition"]
	if len(dispositions) != 1 {
		return "", "", errors.New("a part without one Content-Disposition")
	}
	kind, parameters, err := mime.ParseMediaType(dispositions[0])
	name, named := parameters["name"]
	if err != nil || kind != "form-data" || !named {
		return "", "", errors.New("a part without a name")
	}
	if _, isFile := parameters["filename"]; isFile {
		return "", "", errors.New("a file")
	}
	switch strings.ToLower(part.Header.Get("Content-Transfer-Encoding")) {
	case "", "7bit", "8bit", "binary":
	default:
		return "", "", errors.New("a part in a transfer encoding, which RFC 7578 does away with")
	}
	data, err := io.ReadAll(part)
	if err != nil {
		return "", "", errors.New("a part that ends early")
	}
	return name, string(data), nil
}

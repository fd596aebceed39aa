package examples

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Visitor is a browser. It keeps cookies and follows redirects. For each request it prints the path to
// which that has led, the status, and the title of the page; its text if it has none.
type Visitor struct {
	client http.Client
	url    string
	page   string
}

// Visit returns a visitor of a site that does not listen.
func Visit(site http.Handler) *Visitor {
	v := VisitURL("http://example.com")
	v.client.Transport = inProcess{site}
	return v
}

// VisitURL returns a visitor of a site that listens, or soon will.
func VisitURL(url string) *Visitor {
	jar, _ := cookiejar.New(nil) // returns no error
	return &Visitor{client: http.Client{Jar: jar, Timeout: time.Minute}, url: url}
}

// Get opens a page.
func (v *Visitor) Get(path string) { v.send(http.MethodGet, path, "") }

// Post sends a form, such as "login=anna&password=correct+horse".
func (v *Visitor) Post(path, form string) { v.send(http.MethodPost, path, form) }

// startTime is how long a site may take until it listens.
const startTime = time.Minute

func (v *Visitor) send(method, path, form string) {
	var response *http.Response
	for limit := time.Now().Add(startTime); ; time.Sleep(10 * time.Millisecond) {
		r, err := http.NewRequest(method, v.url+path, strings.NewReader(form))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			response, err = v.client.Do(r)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(limit) {
			fmt.Println(err)
			return
		}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	v.page = string(body)
	fmt.Println(response.Request.URL.RequestURI(), response.StatusCode, titleOf(v.page))
}

var title = regexp.MustCompile(`<title>([^<]*)</title>`)

func titleOf(page string) string {
	if found := title.FindStringSubmatch(page); found != nil {
		page = html.UnescapeString(found[1])
	}
	return strings.TrimSpace(page)
}

var (
	link   = regexp.MustCompile(`(?s)<a [^>]*href="([^"]*)"[^>]*>(.*?)</a>`)
	markup = regexp.MustCompile(`(?s)<svg.*?</svg>|<[^>]*>`)
)

// Links prints the links of the latest page to pages below a path.
func (v *Visitor) Links(below string) {
	for _, found := range link.FindAllStringSubmatch(v.page, -1) {
		if to := html.UnescapeString(found[1]); strings.HasPrefix(to, below) {
			fmt.Println(to, strings.TrimSpace(html.UnescapeString(markup.ReplaceAllString(found[2], ""))))
		}
	}
}

// inProcess serves the requests of a client.
type inProcess struct{ site http.Handler }

// RoundTrip implements [http.RoundTripper].
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	served := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	served.RequestURI, served.Header = r.URL.RequestURI(), r.Header
	w := httptest.NewRecorder()
	p.site.ServeHTTP(w, served)
	response := w.Result()
	response.Request = r
	return response, nil
}

// Package reference is the API's reference as a page: what openapi.json says,
// drawn for people, with every operation there to be tried.
package reference

import (
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personalhttp"
)

//go:embed templates texts assets
var embedded embed.FS

// Path is where the page is.
const Path = "/reference"

// API is what the page describes.
type API interface {
	Document(r *http.Request) ([]byte, error) // openapi.json
	Explain(r *http.Request, err error) personalhttp.Explanation
}

// Options are what the page is made of.
type Options struct {
	API API
	Log *slog.Logger
}

// page is the one page.
type page struct {
	Options
	pages *ui.Pages
}

// New returns the handler of [Path] and what lies below.
func New(o Options) (http.Handler, error) {
	pages, err := ui.New(ui.Options{
		Templates: ui.Folder(embedded, "templates"), Texts: ui.Folder(embedded, "texts"), Assets: ui.Folder(embedded, "assets"), AssetPath: Path + "/assets/", Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("the API's reference: %w", err)
	}
	p := &page{Options: o, pages: pages}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, p.show)
	return pages.Handler(mux), nil
}

// show draws the document as it is now. Where the plugin is away there is none.
func (p *page) show(w http.ResponseWriter, r *http.Request) {
	text, err := p.API.Document(r)
	var d document
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		why := p.API.Explain(r, err)
		p.pages.Problem(w, r, ui.Problem{Status: why.Status, Message: why.Message, Retry: true})
		return
	}
	p.pages.Render(w, r, http.StatusOK, "reference", ui.Page{Wide: true, Body: newBody(d)})
}

// Package languages lists the texts of the module by the place in which they are shown. A test checks them in each
// language.
package languages

import (
	"io/fs"

	admin "github.com/cms-personal/personal/shared/personaladmin/texts"
	"github.com/cms-personal/personal/shared/personalhttp/messages"
	pages "github.com/cms-personal/personal/shared/personalpages/texts"
	ui "github.com/cms-personal/personal/shared/personalweb/ui/texts"
)

// Part is a set of texts with a file for each language. A site may have a folder of its own for it.
type Part struct {
	Name  string
	Files []fs.FS // as in localtext.Source
}

// Parts returns all sets but the mails, which are templates.
func Parts() []Part {
	return []Part{
		{"messages", []fs.FS{messages.Files}},
		{"pages", []fs.FS{ui.Files, pages.Files}},
		{"admin", []fs.FS{ui.Files, admin.Files}},
	}
}

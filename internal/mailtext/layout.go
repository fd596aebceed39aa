package mailtext

import (
	_ "embed"
	"html"
	htmltemplate "html/template"
	"regexp"
	"strings"
	"unicode/utf8"
)

// layoutSource is the HTML of all mails whose HTML is made from their text. It is written for
// mail programs: styles are inline, because some remove others. The style element has only
// the colours of dark mode, where light ones do no harm. Nothing is loaded from elsewhere.
//
//go:embed layout.html
var layoutSource string

func newLayout() *htmltemplate.Template {
	return htmltemplate.Must(htmltemplate.New("layout").Parse(layoutSource))
}

// letterPage is what the layout shows.
type letterPage struct {
	Locale, Dir string // Dir: the direction of writing, ltr or rtl
	Subject     string
	Heading     htmltemplate.HTML // the subject without the name of the site
	Site        string            // "" for none
	Parts       []part
}

// part is a paragraph, a button, or the code.
type part struct {
	Text   htmltemplate.HTML
	Button string // its label
	Link   string // of the button, shown below it, too: some programs show no buttons
	Code   string
}

// maxLabel is the maximum length of a button's label, in characters: longer lines are sentences.
const maxLabel = 40

// parts returns what the paragraphs of a text are in HTML. The code alone is shown as a code. The
// first link below a line of up to maxLabel characters and a colon is a button with that
// label. Other links can be opened.
func parts(text string, l Letter) (all []part) {
	button := false
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		paragraph = strings.TrimSpace(paragraph)
		first, below, _ := strings.Cut(paragraph, "\n")
		label, labels := strings.CutSuffix(first, ":")
		label = strings.TrimSpace(label) // French has a no-break space before a colon
		switch {
		case paragraph == "":
		case paragraph == l.Token:
			all = append(all, part{Code: l.Token})
		case !button && l.Link != "" && below == l.Link && labels && utf8.RuneCountInString(label) <= maxLabel:
			button = true
			all = append(all, part{Button: label, Link: l.Link})
		default:
			all = append(all, part{Text: paragraphHTML(paragraph, l.Link)})
		}
	}
	return all
}

// paragraphHTML returns a paragraph as HTML, with a link that can be opened.
func paragraphHTML(paragraph, link string) htmltemplate.HTML {
	pieces := []string{paragraph}
	if link != "" {
		pieces = strings.Split(paragraph, link)
	}
	for i, piece := range pieces {
		pieces[i] = strings.ReplaceAll(string(textHTML(piece)), "\n", "<br>\n")
	}
	link = html.EscapeString(link)
	return htmltemplate.HTML(strings.Join(pieces, `<a href="`+link+`">`+link+`</a>`)) // each is escaped
}

// maxKept is the maximum length of a word that stays on one line, in bytes: longer ones, above
// all codes, must break on phones.
const maxKept = 25

var word = regexp.MustCompile(`\S+`)

// textHTML returns a text as HTML in which words such as e-mail do not break at their hyphen.
func textHTML(text string) htmltemplate.HTML {
	return htmltemplate.HTML(word.ReplaceAllStringFunc(text, func(w string) string {
		escaped := html.EscapeString(w)
		if len(w) <= maxKept && strings.Contains(w, "-") {
			return `<span style="white-space: nowrap;">` + escaped + `</span>`
		}
		return escaped
	}))
}

package mailtext

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/shared/localtext"
)

// mail is one mail in one language.
type mail struct {
	subject, text *template.Template
	html          *htmltemplate.Template // nil: the text in the layout
}

// executable is a template of either package.
type executable interface {
	Execute(w io.Writer, data any) error
}

// write fills the mail.
func (m mail) write(layout *htmltemplate.Template, locale language.Tag, l Letter) (subject, text, page string, err error) {
	if subject, err = writeSubject(m.subject, l); err != nil {
		return "", "", "", err
	}
	if text, err = writeText(m.text, l); err != nil {
		return "", "", "", err
	}
	if m.html != nil {
		page, err = execute(m.html, l)
		return subject, text, page, err
	}
	heading := subject
	if l.Site != "" {
		nameless := l
		nameless.Site = ""
		if heading, err = writeSubject(m.subject, nameless); err != nil {
			return "", "", "", err
		}
	}
	page, err = execute(layout, letterPage{
		Locale: locale.String(), Dir: localtext.Direction(locale.String()), Subject: subject, Heading: textHTML(heading), Site: l.Site, Parts: parts(text, l),
	})
	return subject, text, page, err
}

func execute(t executable, v any) (string, error) {
	var out strings.Builder
	if err := t.Execute(&out, v); err != nil {
		return "", fmt.Errorf("writing a mail: %w", err)
	}
	return out.String(), nil
}

// maxSubject bounds a subject, in characters: relays refuse long lines.
const maxSubject = 200

// writeSubject refuses a subject that is empty, too long or could add headers to the mail.
func writeSubject(t *template.Template, l Letter) (string, error) {
	text, err := execute(t, l)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return "", errors.New("the subject is empty: write it after \"Subject:\" on the first line")
	}
	if utf8.RuneCountInString(text) > maxSubject {
		return "", fmt.Errorf("the subject is too long: shorten it to %d characters", maxSubject)
	}
	if i := strings.IndexFunc(text, breaksLine); i >= 0 {
		return "", errors.New("the subject must be one line without control characters")
	}
	return text, nil
}

// breaksLine reports control characters and separators of lines and paragraphs.
func breaksLine(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) }

// writeText drops the empty lines between subject and text.
func writeText(t *template.Template, l Letter) (string, error) {
	text, err := execute(t, l)
	if err != nil {
		return "", err
	}
	return strings.TrimLeft(text, "\n"), nil
}

const subjectPrefix = "Subject:"

// moreHeader matches a line below the subject that is meant to continue it, or to be
// another header.
var moreHeader = regexp.MustCompile(`\A(?:[ \t]+\S|[A-Za-z-]+:)`)

// parseText parses a file KIND.LOCALE.txt. Its errors begin with the file's name and a
// line.
func parseText(k Kind, file, source string) (subject, text *template.Template, err error) {
	if source, err = clean(file, source); err != nil {
		return nil, nil, err
	}
	first, body, _ := strings.Cut(source, "\n")
	first, ok := strings.CutPrefix(first, subjectPrefix)
	if !ok {
		return nil, nil, fmt.Errorf("%s:1: the first line must be the subject: write it like %s Set a new password", file, subjectPrefix)
	}
	if moreHeader.MatchString(body) {
		return nil, nil, fmt.Errorf("%s:2: a mail has no header but the subject, which is one line: leave the line below it empty", file)
	}
	// Positions in errors are those in the file.
	if subject, err = parseTemplate(k, file, strings.Repeat(" ", len(subjectPrefix))+first); err != nil {
		return nil, nil, err
	}
	if text, err = parseTemplate(k, file, "\n"+body); err != nil {
		return nil, nil, err
	}
	return subject, text, nil
}

// checkText renders subject and text with samples. Its errors are like those of parseText.
func (m mail) checkText(k Kind, file string) error {
	if err := check(k, file, 1, func(l Letter) (string, error) { return writeSubject(m.subject, l) }, false); err != nil {
		return err
	}
	return check(k, file, 2, func(l Letter) (string, error) { return writeText(m.text, l) }, true)
}

func parseTemplate(k Kind, file, source string) (*template.Template, error) {
	t, err := template.New(file).Parse(source)
	if err != nil {
		return nil, located(file, 1, err)
	}
	if len(t.Templates()) > 1 {
		return nil, fmt.Errorf("%s:1: define and block are not available in mails: remove them", file)
	}
	return t, checkTree(k, t.Tree)
}

// parseHTML parses a file KIND.LOCALE.html. Its errors are like those of parseText.
func parseHTML(k Kind, file, source string) (*htmltemplate.Template, error) {
	source, err := clean(file, source)
	if err != nil {
		return nil, err
	}
	// Before html/template adds its own functions to the tree.
	if _, err := parseTemplate(k, file, source); err != nil {
		return nil, err
	}
	t, err := htmltemplate.New(file).Parse(source)
	if err != nil {
		return nil, located(file, 1, err)
	}
	return t, check(k, file, 1, func(l Letter) (string, error) { return execute(t, l) }, true)
}

// clean removes what editors add: the byte order mark, and carriage returns at the ends
// of lines. It refuses what cannot be shown.
func clean(file, source string) (string, error) {
	source = strings.ReplaceAll(strings.TrimPrefix(source, "\ufeff"), "\r\n", "\n")
	line := 0
	for text := range strings.Lines(source) {
		line++
		if !utf8.ValidString(text) {
			return "", fmt.Errorf("%s:%d: the line is not valid UTF-8: save the file as UTF-8", file, line)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			return "", fmt.Errorf("%s:%d: the line contains a control character: remove it", file, line)
		}
	}
	return source, nil
}

// check renders a part of a mail, which begins on a line of the file, with samples. A
// body must have text and, with every sample, the token if the mail carries one.
func check(k Kind, file string, line int, write func(Letter) (string, error), body bool) error {
	described, _ := describe(k)
	carries := body && slices.Contains(described.Fields, Token)
	for _, l := range samples() {
		text, err := write(l)
		if err != nil {
			return located(file, line, err)
		}
		if body && strings.TrimSpace(text) == "" {
			return fmt.Errorf("%s:%d: the mail is empty: write its text below the subject", file, line)
		}
		if carries && !strings.Contains(text, sampleToken) {
			return fmt.Errorf("%s:%d: the mail does not always contain its code: add {{.Token}} where no condition can leave it out", file, line)
		}
	}
	return nil
}

// located returns the error of a template so that it begins with file and line.
func located(file string, line int, err error) error {
	text := err.Error()
	_, rest, found := strings.Cut(text, file+":")
	switch {
	case !found:
		return fmt.Errorf("%s:%d: %w", file, line, err)
	case rest != "" && rest[0] >= '0' && rest[0] <= '9':
		return fmt.Errorf("%s:%s", file, rest)
	}
	return fmt.Errorf("%s:%d: %s", file, line, strings.TrimSpace(rest))
}

// functions are those that templates may call: comparisons, which a sample cannot miss
// when they fail or take long.
var functions = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge"}

// checkTree refuses what a rendering with samples may not reach: fields that the kind
// does not have, and parts of the template language that can fail or not end.
func checkTree(k Kind, tree *parse.Tree) error {
	described, _ := describe(k)
	c := treeCheck{tree: tree, fields: described.Fields}
	c.node(tree.Root, false)
	return c.err
}

type treeCheck struct {
	tree   *parse.Tree
	fields []Field
	err    error // the first one
}

func (c *treeCheck) refuse(n parse.Node, format string, args ...any) {
	if c.err == nil {
		location, _ := c.tree.ErrorContext(n)
		c.err = fmt.Errorf("%s: %s", location, fmt.Sprintf(format, args...))
	}
}

// node checks a node; with says whether the dot is another value than the mail.
func (c *treeCheck) node(n parse.Node, with bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			c.node(child, with)
		}
	case *parse.TextNode, *parse.CommentNode, *parse.BoolNode, *parse.NumberNode, *parse.StringNode:
	case *parse.ActionNode:
		c.node(n.Pipe, with)
	case *parse.IfNode:
		c.branch(&n.BranchNode, with, with)
	case *parse.WithNode:
		c.branch(&n.BranchNode, with, true)
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			for _, arg := range command.Args {
				c.node(arg, with)
			}
		}
	case *parse.DotNode:
		if !with {
			c.refuse(n, "a mail cannot show {{.}}: name a field, %s", c.names())
		}
	case *parse.FieldNode:
		if with {
			c.refuse(n, "within {{with}} write {{$%s}}", n)
		}
		c.field(n, n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			c.field(n, n.Ident[1:])
		} else if len(n.Ident) > 1 {
			c.refuse(n, "%s does not exist: a variable has no fields", n)
		}
	case *parse.IdentifierNode:
		if !slices.Contains(functions, n.Ident) {
			c.refuse(n, "the function %s is not available in mails: use only %s", n.Ident, strings.Join(functions, ", "))
		}
	default:
		c.refuse(n, "this is not available in mails: use only fields, if and with")
	}
}

func (c *treeCheck) branch(n *parse.BranchNode, with, within bool) {
	c.node(n.Pipe, with)
	c.node(n.List, within)
	c.node(n.ElseList, with)
}

func (c *treeCheck) field(n parse.Node, path []string) {
	if len(path) != 1 || !slices.Contains(c.fields, Field(path[0])) {
		c.refuse(n, "%s does not exist: this mail has %s", n, c.names())
	}
}

func (c *treeCheck) names() string {
	var names []string
	for _, f := range c.fields {
		names = append(names, "."+string(f))
	}
	return strings.Join(names, ", ")
}

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/languages"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/localtext"
)

// textsCommand groups the commands for texts by language.
type textsCommand struct {
	Missing textsMissingCommand `cmd:"" help:"Count the texts that a language lacks, or print those of a part in English, for translation."`
}

type textsMissingCommand struct {
	Locale string `arg:"" help:"The language, such as de or pt-BR."`
	Part   string `arg:"" optional:"" help:"Print the texts that this part lacks as a JSON file to translate: messages (of the API), pages or admin."`
	Own    string `placeholder:"DIR" help:"The site's own texts of the part, such as the folder with pl.json."`
	Mails  string `placeholder:"DIR" help:"The folder of the setting mail.templates."`
}

// Run counts missing texts, or prints those of one part.
func (c textsMissingCommand) Run(w io.Writer) error {
	tag, err := language.Parse(c.Locale)
	if err != nil || tag == language.Und {
		return fmt.Errorf("%q is not a language: write it like de or pt-BR", c.Locale)
	}
	c.Locale = tag.String()
	if c.Part == "" {
		return c.count(w)
	}
	parts := languages.Parts()
	i := slices.IndexFunc(parts, func(p languages.Part) bool { return p.Name == c.Part })
	if i < 0 {
		return fmt.Errorf("there is no part %q: the parts are messages, pages and admin; for mails see \"mail list\"", c.Part)
	}
	texts, missing, err := c.read(parts[i])
	if err != nil {
		return err
	}
	english := map[string]localtext.Text{}
	for _, key := range missing {
		english[key] = texts[key]
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(english)
}

// read returns the texts of a part in the language, with English ones for those that are missing.
func (c textsMissingCommand) read(p languages.Part) (localtext.Texts, []string, error) {
	source := localtext.Source{BuiltIn: p.Files, Needed: []string{c.Locale}}
	if c.Own != "" {
		source.Own = os.DirFS(c.Own)
	}
	all, missing, err := source.Read()
	if err != nil {
		err = fmt.Errorf("--own: %w", err)
	}
	return all[c.Locale], missing[c.Locale], err
}

// count prints how many texts of each part are missing.
func (c textsMissingCommand) count(w io.Writer) error {
	if c.Own != "" {
		return errors.New("--own needs a part: messages, pages or admin")
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range languages.Parts() {
		texts, missing, err := c.read(p)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t%d of %d\n", p.Name, len(missing), len(texts))
	}
	missing, all, err := c.missingMails()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "mails\t%d of %d\n", len(missing), all)
	if err := out.Flush(); err != nil {
		return err
	}
	if c.Mails != "" && len(missing) > 0 {
		_, err = fmt.Fprintf(w, "The mails that are missing: %s.\n", strings.Join(missing, ", "))
	}
	return err
}

// missingMails returns the kinds of mails that are not in the language, nor in one of its parents, and how many kinds there are.
func (c textsMissingCommand) missingMails() (missing []string, all int, err error) {
	set, err := mailtext.Load(c.Mails, c.Locale)
	if err != nil {
		return nil, 0, fmt.Errorf("--mails: %w", err)
	}
	fitting := append([]string{c.Locale}, localtext.Parents(c.Locale)...)
	for _, d := range mailtext.Descriptions() {
		if !slices.ContainsFunc(set.Locales(d.Kind), func(l string) bool { return slices.Contains(fitting, l) }) {
			missing = append(missing, string(d.Kind))
		}
	}
	slices.SortFunc(missing, cmp.Compare)
	return missing, len(mailtext.Descriptions()), nil
}

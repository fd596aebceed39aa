package main

import (
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
	Locale   string `arg:"" help:"The language, such as de or pt-BR."`
	Part     string `arg:"" optional:"" help:"Print the texts that this part lacks, in English, as a JSON object: messages (of the API), pages (the account pages) or admin (the admin pages). Without it all are counted."`
	Messages string `placeholder:"DIR" help:"The folder with the site's own messages."`
	Pages    string `placeholder:"DIR" help:"The folder with the site's own texts of the account pages."`
	Admin    string `placeholder:"DIR" help:"The folder with the site's own texts of the admin pages."`
	Mails    string `placeholder:"DIR" help:"The folder of the setting mail.templates."`
}

// Run counts missing texts, or prints those of one part.
func (c textsMissingCommand) Run(w io.Writer) error {
	tag, err := language.Parse(c.Locale)
	if err != nil || tag == language.Und {
		return fmt.Errorf("%q is not a language: write it like de or pt-BR", c.Locale)
	}
	c.Locale = tag.String()
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range languages.Parts() {
		texts, missing, err := c.read(p)
		switch {
		case err != nil:
			return err
		case c.Part == p.Name:
			return writeTexts(w, texts, missing)
		case c.Part == "":
			fmt.Fprintf(out, "%s\t%d of %d are missing\n", p.Name, len(missing), len(texts))
		}
	}
	if c.Part != "" {
		return fmt.Errorf("there is no part %q: the parts are messages, pages and admin; for mails see \"mail list --write\"", c.Part)
	}
	missing, all, err := c.missingMails()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "mails\t%d of %d are missing\n", len(missing), all)
	if err := out.Flush(); err != nil {
		return err
	}
	if len(missing) > 0 && len(missing) < all {
		_, err = fmt.Fprintf(w, "The missing mails are %s.\n", strings.Join(missing, ", "))
	}
	return err
}

// read returns the texts of a part in the language, with English ones for those that are missing.
func (c textsMissingCommand) read(p languages.Part) (localtext.Texts, []string, error) {
	source := localtext.Source{BuiltIn: p.Files, Needed: []string{c.Locale}}
	if own := map[string]string{"messages": c.Messages, "pages": c.Pages, "admin": c.Admin}[p.Name]; own != "" {
		source.Own = os.DirFS(own)
	}
	all, missing, err := source.Read()
	if err != nil {
		err = fmt.Errorf("--%s: %w", p.Name, err)
	}
	return all[c.Locale], missing[c.Locale], err
}

// writeTexts writes some texts as a file of a language has them.
func writeTexts(w io.Writer, texts localtext.Texts, keys []string) error {
	chosen := map[string]localtext.Text{}
	for _, key := range keys {
		chosen[key] = texts[key]
	}
	return writeJSON(w, chosen)
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
	slices.Sort(missing)
	return missing, len(mailtext.Descriptions()), nil
}

package personalhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestMessages_UseCallersLanguage(t *testing.T) {
	const english, russian = "This page or operation does not exist.", "Такой страницы или операции нет."
	for _, c := range []struct{ fallback, accept, want string }{
		{"", "", english},
		{"ru", "", russian},
		{"ru-RU", "*", russian},
		{"", "ru", russian},
		{"", "ru-RU,ru;q=0.9,en;q=0.8", russian},
		{"ru", "en-GB", english},
		{"", "en;q=0.1, ru;q=0.9", russian},
		{"", "de, ru;q=0.5", russian},
		{"ru", "de, en;q=0.5", english},
		{"ru", "de", russian},
		{"ru", "ru;q=0, en", english},
		{"ru", "uk, en;q=0.5", english},
		{"ru", "kk, en;q=0.5", english},
		{"ru", "kk, en-AU;q=0.5", english},
		{"", "kk", russian},
		{"ru", "!!", russian},
		{"", "ru,-BE;q=0.4", russian},
		{"", "es-ES_tradnl,ru;q=0.9", russian},
		{"ru", strings.Repeat("en,", 1000) + "en", english},
	} {
		a := newSite(t, noService(), personalhttp.Options{DefaultLocale: c.fallback}).do("GET", prefix, "", "", "Accept-Language", c.accept)
		if a.Result.Message != c.want {
			t.Errorf("default %q, Accept-Language %.40q: got %q, want %q", c.fallback, c.accept, a.Result.Message, c.want)
		}
		if vary := a.Header.Values("Vary"); !strings.Contains(strings.Join(vary, ","), "Accept-Language") {
			t.Errorf("got Vary %q, want Accept-Language", vary)
		}
	}
}

func TestCall_NamesLanguagesThatTheCallerPrefersToTheMessages(t *testing.T) {
	for _, c := range []struct{ accept, locale, languages string }{
		{"", "en", ""},
		{"*", "en", ""},
		{"!!", "en", ""},
		{"en-GB, de;q=0.5", "en", ""},
		{"ru-RU, ru;q=0.9, en;q=0.8", "ru", ""},
		{"de-AT, de;q=0.9, en;q=0.8", "en", "de-AT,de,en"},
		{"de, fr;q=0.7, ru;q=0.5", "ru", "de,fr,ru"},
		{"kk", "ru", "kk,ru"},
		{"fr", "en", "fr,en"},
		{"zh_tw", "en", "zh-TW,en"},
		{"de-u-co-phonebk" + strings.Repeat("-x-abcdefgh", 6) + ", fr", "en", "fr,en"},
		{strings.Repeat("de, ", 9) + "fr, it", "en", strings.Repeat("de,", 9) + "fr,en"},
	} {
		var got personal.Call
		s := everything()
		s.FieldsFunc = func(ctx context.Context) ([]personal.Field, error) {
			got = personal.CallFrom(ctx)
			return nil, nil
		}
		site := newSite(t, s, personalhttp.Options{})
		for range 2 { // the second one is remembered
			site.do("GET", prefix+"fields", "", "", "Accept-Language", c.accept)
			if got.Locale != c.locale || got.Languages != c.languages || len(got.Languages) > 64 {
				t.Errorf("Accept-Language %.40q: got locale %q, languages %q; want %q, %q", c.accept, got.Locale, got.Languages, c.locale, c.languages)
			}
		}
	}
}

func TestLabels_UseBestAvailableLanguage(t *testing.T) {
	for _, c := range []struct {
		name, accept string
		label        personal.LocalText
		want         string
	}{
		{"caller's", "ru", personal.LocalText{"en": "Age", "ru": "Возраст"}, "Возраст"},
		{"caller's, without messages in it", "de", personal.LocalText{"en": "Age", "de": "Alter"}, "Alter"},
		{"caller's second", "fr, de;q=0.5", personal.LocalText{"en": "Age", "de": "Alter"}, "Alter"},
		{"caller's in another country", "pt-BR", personal.LocalText{"en": "Age", "pt": "Idade"}, "Idade"},
		{"caller's in another script", "zh-TW", personal.LocalText{"en": "Age", "zh": "年龄"}, "年龄"},
		{"related to the caller's, before the default", "kk", personal.LocalText{"en": "Age", "ru": "Возраст"}, "Возраст"},
		{"default", "fr", personal.LocalText{"de": "Alter", "en": "Age"}, "Age"},
		{"any", "fr", personal.LocalText{"ru": "Возраст", "de": "Alter"}, "Alter"},
		{"empty text is none", "de", personal.LocalText{"de": "", "en": "Age"}, "Age"},
		{"key that is not a language tag", "de", personal.LocalText{"!": "?", "en": "Age"}, "Age"},
		{"only a key that is not a language tag", "de", personal.LocalText{"!": "?"}, "?"},
		{"name", "de", nil, "age"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := everything()
			s.FieldsFunc = func(context.Context) ([]personal.Field, error) {
				return []personal.Field{{Name: "age", Label: c.label, Hint: c.label, PatternMessage: c.label},
					{Name: "x", Options: []personal.Option{{Value: "age", Label: c.label}}}}, nil
			}
			a := newSite(t, s, personalhttp.Options{}).do("GET", prefix+"fields", "", "", "Accept-Language", c.accept)
			var data struct {
				Fields []struct {
					Label   string
					Hint    string
					Message string `json:"pattern_message"`
					Options []struct{ Label string }
				}
			}
			if err := json.Unmarshal(a.Data, &data); err != nil {
				t.Fatal(err)
			}
			if got := data.Fields[0].Label; got != c.want || data.Fields[1].Options[0].Label != c.want {
				t.Errorf("got label %q, option %q; want %q", got, data.Fields[1].Options[0].Label, c.want)
			}
			if c.label == nil {
				c.want = ""
			}
			if f := data.Fields[0]; f.Hint != c.want || f.Message != c.want {
				t.Errorf("got hint %q, pattern message %q; want %q", f.Hint, f.Message, c.want)
			}
		})
	}
}

// german has every message in German, each with its key.
func german(t *testing.T) fstest.MapFS {
	t.Helper()
	data, err := os.ReadFile("messages/en.json")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	if err := json.Unmarshal(data, &texts); err != nil {
		t.Fatal(err)
	}
	for key := range texts {
		texts[key] = "deutsch: " + key
	}
	if data, err = json.Marshal(texts); err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{"de.json": {Data: data}}
}

func TestMessages_OfTheSite(t *testing.T) {
	own := german(t)
	own["ru.json"] = &fstest.MapFile{Data: []byte(`{"code.not_found": "Нет такой страницы."}`)}
	own["pl.json"] = &fstest.MapFile{Data: []byte(`{}`)}
	for _, c := range []struct{ fallback, accept, want, locale, languages string }{
		{"", "de-AT, ru;q=0.5", "deutsch: code.not_found", "de", "de-AT,ru"},
		{"", "pl, de;q=0.5", "This page or operation does not exist.", "pl", "pl,de,en"},
		{"", "pl", "This page or operation does not exist.", "pl", "pl,en"},
		{"", "ru, de;q=0.5", "Нет такой страницы.", "ru", ""},
		{"", "en", "This page or operation does not exist.", "en", ""},
		{"", "fr", "This page or operation does not exist.", "en", "fr,en"},
		{"de", "", "deutsch: code.not_found", "de", ""},
		{"de-DE", "fr", "deutsch: code.not_found", "de", "fr,de"},
	} {
		var got personal.Call
		s := everything()
		s.FieldsFunc = func(ctx context.Context) ([]personal.Field, error) {
			got = personal.CallFrom(ctx)
			return nil, nil
		}
		site := newSite(t, s, personalhttp.Options{DefaultLocale: c.fallback, Messages: own})
		if got := site.do("GET", prefix, "", "", "Accept-Language", c.accept).Result.Message; got != c.want {
			t.Errorf("default %q, Accept-Language %q: got %q, want %q", c.fallback, c.accept, got, c.want)
		}
		site.do("GET", prefix+"fields", "", "", "Accept-Language", c.accept)
		if got.Locale != c.locale || got.Languages != c.languages {
			t.Errorf("default %q, Accept-Language %q: got locale %q, languages %q; want %q, %q", c.fallback, c.accept, got.Locale, got.Languages,
				c.locale, c.languages)
		}
	}
}

func TestLocales_DefaultFirst(t *testing.T) {
	for fallback, want := range map[string][]string{"": {"en", "de", "ru"}, "ru-RU": {"ru", "de", "en"}, "de": {"de", "en", "ru"}} {
		h, err := personalhttp.New(noService(), personalhttp.Options{DefaultLocale: fallback, Messages: german(t), Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := h.Locales(); !slices.Equal(got, want) {
				t.Errorf("default %q: got %q, want %q", fallback, got, want)
			}
		}
	}
}

func TestLocales_OfTheSite(t *testing.T) {
	polish := fstest.MapFS{"pl.json": {Data: []byte(`{"success.profile":"Zapisano profil."}`)}}
	for name, test := range map[string]struct {
		options personalhttp.Options
		want    []string
	}{
		"none":                          {personalhttp.Options{}, []string{"en", "ru"}},
		"one":                           {personalhttp.Options{Locales: []string{"de"}}, []string{"de"}},
		"the first is the default":      {personalhttp.Options{Locales: []string{"fr", "de", "en"}}, []string{"fr", "de", "en"}},
		"another default":               {personalhttp.Options{Locales: []string{"fr", "de"}, DefaultLocale: "de-AT"}, []string{"de", "fr"}},
		"a default alone":               {personalhttp.Options{DefaultLocale: "pt"}, []string{"pt-BR", "en", "ru"}},
		"one of the site's":             {personalhttp.Options{Locales: []string{"uk"}, Messages: polish}, []string{"uk", "pl"}},
		"one of the site's as default":  {personalhttp.Options{Locales: []string{"uk"}, Messages: polish, DefaultLocale: "pl"}, []string{"pl", "uk"}},
		"one of the site's, named, too": {personalhttp.Options{Locales: []string{"pl"}, Messages: polish}, []string{"pl"}},
	} {
		test.options.Log = quiet()
		h, err := personalhttp.New(noService(), test.options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := h.Locales(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestMessages_MissingOnesAreThoseOfTheDefault(t *testing.T) {
	own := fstest.MapFS{"pt-BR.json": {Data: []byte(`{"success.profile":"Perfil salvo."}`)}, "it.json": {Data: []byte(`{}`)}}
	h, err := personalhttp.New(noService(), personalhttp.Options{DefaultLocale: "pt", Messages: own, Log: quiet()}) // that is pt-BR
	if err != nil {
		t.Fatal(err)
	}
	for locale, want := range map[string]string{"it": "Perfil salvo.", "pt-BR": "Perfil salvo.", "en": "Your profile has been saved."} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Accept-Language", locale)
		h.WithCall(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got := h.SuccessMessage(r, "profile"); got != want {
				t.Errorf("%s: got %q, want %q", locale, got, want)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}

func TestNew_NamesEveryWrongMessage(t *testing.T) {
	own := german(t)
	own["de.json"].Data = bytes.Replace(own["de.json"].Data, []byte(`"field.taken"`), []byte(`"field.took"`), 1)
	own["french.json"] = &fstest.MapFile{}
	_, err := personalhttp.New(noService(), personalhttp.Options{BasePath: "x", Messages: own})
	for _, want := range []string{
		`base path "x"`, "messages: french.json: the name is not a BCP 47 tag", `de.json: there is no text with the key "field.took"`,
	} {
		if !strings.Contains(fmt.Sprintln(err), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if _, err := personalhttp.New(noService(), personalhttp.Options{DefaultLocale: "ja"}); err == nil ||
		!strings.Contains(err.Error(), "messages exist in en, ru only") {
		t.Errorf("default without messages: got %v", err)
	}
}

// Choices are remembered in fewer places than there are headers here.
func TestMessages_RememberedLanguageIsThatOfTheHeader(t *testing.T) {
	site := newSite(t, noService(), personalhttp.Options{})
	for range 2 {
		for i := range 400 {
			accept, want := fmt.Sprintf("en;q=0.%d, fr", 100+i), "This page or operation does not exist."
			if i%2 == 1 {
				accept, want = fmt.Sprintf("ru;q=0.%d, fr", 100+i), "Такой страницы или операции нет."
			}
			if got := site.do("GET", prefix, "", "", "Accept-Language", accept).Result.Message; got != want {
				t.Fatalf("Accept-Language %q: got %q, want %q", accept, got, want)
			}
		}
	}
}

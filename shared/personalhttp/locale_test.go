package personalhttp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestMessages_UseCallersLanguage(t *testing.T) {
	const english, russian = "This page or operation does not exist.", "Такой страницы или операции нет."
	for _, c := range []struct{ standard, accept, want string }{
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
		{"ru", strings.Repeat("en,", 1000) + "en", russian},
	} {
		a := newSite(t, noService(), personalhttp.Options{DefaultLocale: c.standard}).do("GET", prefix, "", "", "Accept-Language", c.accept)
		if a.Result.Message != c.want {
			t.Errorf("default %q, Accept-Language %.40q: %q", c.standard, c.accept, a.Result.Message)
		}
		if vary := a.Header.Values("Vary"); !strings.Contains(strings.Join(vary, ","), "Accept-Language") {
			t.Errorf("Vary is %q", vary)
		}
	}
}

func TestLabels_UseBestAvailableLanguage(t *testing.T) {
	for _, c := range []struct {
		name, accept string
		label        personal.LocalText
		want         string
	}{
		{"the caller's", "ru", personal.LocalText{"en": "Age", "ru": "Возраст"}, "Возраст"},
		{"the caller's, with no messages in it", "de", personal.LocalText{"en": "Age", "de": "Alter"}, "Alter"},
		{"the caller's second", "fr, de;q=0.5", personal.LocalText{"en": "Age", "de": "Alter"}, "Alter"},
		{"the caller's in another country", "pt-BR", personal.LocalText{"en": "Age", "pt": "Idade"}, "Idade"},
		{"the caller's in another script", "zh-TW", personal.LocalText{"en": "Age", "zh": "年龄"}, "年龄"},
		{"one the caller understands, before the default", "kk", personal.LocalText{"en": "Age", "ru": "Возраст"}, "Возраст"},
		{"the default", "fr", personal.LocalText{"de": "Alter", "en": "Age"}, "Age"},
		{"any", "fr", personal.LocalText{"ru": "Возраст", "de": "Alter"}, "Alter"},
		{"an empty text is none", "de", personal.LocalText{"de": "", "en": "Age"}, "Age"},
		{"a key that is no language", "de", personal.LocalText{"!": "?", "en": "Age"}, "Age"},
		{"only a key that is no language", "de", personal.LocalText{"!": "?"}, "?"},
		{"the name", "de", nil, "age"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := everything()
			s.FieldsFunc = func(context.Context) ([]personal.Field, error) {
				return []personal.Field{{Name: "age", Label: c.label}, {Name: "x", Options: []personal.Option{{Value: "age", Label: c.label}}}}, nil
			}
			a := newSite(t, s, personalhttp.Options{}).do("GET", prefix+"fields", "", "", "Accept-Language", c.accept)
			var data struct {
				Fields []struct {
					Label   string
					Options []struct{ Label string }
				}
			}
			if err := json.Unmarshal(a.Data, &data); err != nil {
				t.Fatal(err)
			}
			if got := data.Fields[0].Label; got != c.want || data.Fields[1].Options[0].Label != c.want {
				t.Errorf("label %q, option %q; want %q", got, data.Fields[1].Options[0].Label, c.want)
			}
		})
	}
}

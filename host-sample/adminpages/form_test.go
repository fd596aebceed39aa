package adminpages_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var (
	inputTag    = regexp.MustCompile(`<input [^>]*>`)
	areaTag     = regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]*)"[^>]*>\n(.*?)</textarea>`)
	selectTag   = regexp.MustCompile(`(?s)<select [^>]*name="([^"]*)".*?</select>`)
	selectedTag = regexp.MustCompile(`<option value="([^"]*)" selected>`)
	attribute   = regexp.MustCompile(`(name|value|type)="([^"]*)"`)
)

// shownValues returns what a browser would send of a page's forms as they are
// shown.
func shownValues(t *testing.T, page string) url.Values {
	t.Helper()
	values := url.Values{}
	for _, tag := range inputTag.FindAllString(page, -1) {
		attributes := map[string]string{}
		for _, found := range attribute.FindAllStringSubmatch(tag, -1) {
			attributes[found[1]] = html.UnescapeString(found[2])
		}
		ticked := regexp.MustCompile(` checked`).MatchString(tag)
		if kind := attributes["type"]; kind == "checkbox" && !ticked || kind == "radio" && !ticked {
			continue
		}
		values.Set(attributes["name"], attributes["value"])
	}
	for _, found := range areaTag.FindAllStringSubmatch(page, -1) {
		values.Set(found[1], html.UnescapeString(found[2]))
	}
	for _, found := range selectTag.FindAllStringSubmatch(page, -1) {
		if chosen := selectedTag.FindStringSubmatch(found[0]); chosen != nil {
			values.Set(found[1], html.UnescapeString(chosen[1]))
		}
	}
	return values
}

func TestForms_OnlySchemaAndUserFormsMayBeLarge(t *testing.T) {
	b := open(t, nil)
	const usual, large = 64 << 10, 1 << 20
	for path, limit := range map[string]int{
		"/admin/users/1":        large,
		"/admin/users/1/email":  usual,
		"/admin/users/1/delete": usual,
		"/admin/fields/json":    large,
		"/admin/fields/new":     large,
		"/admin/fields/move":    usual,
	} {
		for over, refused := range map[int]bool{0: false, 1: true} {
			filler := url.Values{"filler": {strings.Repeat("x", limit+over-len("filler="))}}
			w := b.post(path, filler)
			if (w.Code == http.StatusRequestEntityTooLarge) != refused {
				t.Errorf("%s with %d bytes: got status %d, want 413: %t", path, limit+over, w.Code, refused)
			}
		}
	}
}

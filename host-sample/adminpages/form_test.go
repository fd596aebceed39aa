package adminpages_test

import (
	"html"
	"net/url"
	"regexp"
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

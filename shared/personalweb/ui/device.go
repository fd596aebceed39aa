package ui

import "strings"

// Device returns the browser and the system of a User-Agent header, or the header
// itself if the browser is unknown. Browsers also name others that they are
// compatible with, so the order matters.
func Device(agent string) string {
	browser := firstMatch(agent, [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"YaBrowser/", "Yandex"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	})
	system := firstMatch(agent, [][2]string{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"},
		{"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	})
	switch {
	case browser == "":
		return agent
	case system == "":
		return browser
	}
	return browser + " · " + system
}

// firstMatch returns the name of the first mark that a text contains.
func firstMatch(text string, marks [][2]string) string {
	for _, mark := range marks {
		if strings.Contains(text, mark[0]) {
			return mark[1]
		}
	}
	return ""
}

package personal

// Languages returns the tags (BCP 47) of the built-in languages. Messages, pages and mails exist in
// each; the first is the default.
func Languages() []string { return []string{"en", "ru"} }

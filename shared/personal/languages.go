package personal

// Languages returns the tags (BCP 47) of the built-in languages. Messages, pages and mails exist in
// each. Those that a site uses are its own choice.
func Languages() []string { return []string{"en", "de", "es", "fr", "pt-BR", "uk", "ru"} }

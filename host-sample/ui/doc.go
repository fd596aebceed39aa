// Package ui draws the sample's web pages: a layout, a stylesheet, forms and
// tables in English and Russian, for visitors and administrators alike. Pages
// are templates over typed values, rendered on the server; every one works
// without script, and scripts only add to it.
//
// A set of pages is a [Pages]: templates, texts and assets of its own, on top of
// those that all sets share. It answers through a plain [http.ServeMux], behind
// [Pages.Handler], which adds what holds for every page: the security headers,
// the refusal of posts from other origins, and errors as pages.
//
// The language is that of [personal.Call] in the request's context;
// [RememberedLanguage] stands before whoever makes that call.
package ui

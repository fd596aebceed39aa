// Package adminpages are the sample's pages for administrators, under /admin/:
// the plugin and its versions, users and their fields, mails that were kept, and
// what happened. They stand behind [adminentry].
package adminpages

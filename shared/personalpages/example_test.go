package personalpages_test

import (
	"html/template"
	"log"
	"net/http"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// layout is that of the whole site. The pages define its blocks.
var layout = template.Must(template.New("layout").Parse(`<!doctype html>
<html lang="{{.Lang}}" dir="{{.Dir}}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{block "title" .}}{{end}} – My CMS</title>
{{block "head" .}}{{end}}
</head>
<body>
<header>
  <a href="/orders">My CMS</a>
  {{if .User}}<form method="post" action="/account/sign-out"><button>Sign out</button></form>{{end}}
</header>
<main>{{block "body" .}}{{end}}</main>
</body>
</html>
`))

// ordersPage is a page of the site in this layout.
var ordersPage = template.Must(template.Must(layout.Clone()).Parse(`
{{define "title"}}Orders of {{.User.Profile.Login}}{{end}}
{{define "body"}}
<h1>Orders</h1>
<form method="post"><label>Item <input name="item"></label> <button>Order</button></form>
{{end}}`))

// Account pages in the layout of the site, and a page of the site for signed-in users.
func Example() {
	module := openModule() // in earnest: personalhost.Open(ctx, config)
	account, err := personalpages.New(module, personalpages.Config{Layout: layout})
	if err != nil {
		log.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	pages.Handle("/orders", account.RequireUser(http.HandlerFunc(orders)))
	site := module.Front(pages)

	anna := visit(site)
	anna.Get("/orders")
	anna.Post("/account/sign-in?next=%2Forders", "login=anna&password=correct+horse")
	anna.Get("/account")
	// Output:
	// /account/sign-in?next=%2Forders 200 Sign in – My CMS
	// /orders 200 Orders of anna – My CMS
	// /account 200 Profile – My CMS
}

func orders(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		user, _ := personalhttp.UserFrom(r.Context())
		log.Printf("user %d orders %q", user.ID, r.PostFormValue("item"))
		http.Redirect(w, r, "/orders", http.StatusSeeOther)
		return
	}
	w.Header().Set("Cache-Control", "no-store") // the page differs by user
	if err := ordersPage.Execute(w, ui.ContentOf(r)); err != nil {
		log.Print(err)
	}
}

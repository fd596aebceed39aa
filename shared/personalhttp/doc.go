// Package personalhttp is the shim between a content management system and its
// personal-account module: an [http.Handler] that serves
// {base_url}/api/v1/personal/ out of any [personal.Service], as the HTTP
// contract sets out, and a middleware that tells the system's own routes who
// is signed in.
//
// The handler matches paths itself, with and without their final slash, and
// never redirects, because a redirected POST loses its body. Routers such as
// [http.ServeMux] redirect before a handler sees the request, so ask
// [Handler.Matches] first and hand only the rest to the router.
//
// The handler describes itself: openapi.yaml, with the host's user fields and
// options in it, is served as openapi.json, and to pages by [Handler.Document].
//
// Nothing below this package knows HTTP, and this package knows nothing of
// what the operations do: it decodes, asks the service, and writes the answer.
package personalhttp

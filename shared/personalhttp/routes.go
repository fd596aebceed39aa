package personalhttp

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// input is a request that has been read.
type input struct {
	credentials personal.Credentials // zero unless the headers hold a well-formed pair
	params      params
	labels      *labels
}

// operation is one row of the HTTP contract, section 3.
type operation struct {
	done done // what to tell the user on success; empty: nothing
	call func(context.Context, personal.Service, *input) (data any, err error)
}

// route is one path with the operations behind its methods.
type route struct {
	name       string // the path under the prefix, without slashes
	operations map[string]operation
	allow      string // the methods, as headers list them
}

func newRoutes() map[string]*route {
	refreshing := operation{call: refresh}
	table := map[string]map[string]operation{
		"auth":            {http.MethodPost: {doneSignedIn, authorize}},
		"auth_refresh":    {http.MethodGet: refreshing, http.MethodPost: refreshing},
		"register":        {http.MethodPost: {doneRegistered, register}},
		"recover":         {http.MethodPost: {doneRecoveryRequested, recoverPassword}},
		"recover_confirm": {http.MethodPost: {donePasswordChanged, confirmRecovery}},
		"profile":         {http.MethodGet: {call: profile}, http.MethodPost: {doneProfileSaved, updateProfile}},
		"password":        {http.MethodPost: {donePasswordChanged, changePassword}},
		"email":           {http.MethodPost: {doneEmailRequested, changeEmail}},
		"email_confirm":   {http.MethodPost: {doneEmailChanged, confirmEmail}},
		"logout":          {http.MethodPost: {doneLoggedOut, logout}},
		"sessions":        {http.MethodGet: {call: sessions}},
		"sessions_revoke": {http.MethodPost: {doneSessionEnded, revokeSession}},
		"fields":          {http.MethodGet: {call: fields}},
	}
	routes := make(map[string]*route, len(table))
	for name, operations := range table {
		methods := slices.Sorted(maps.Keys(operations))
		routes[name] = &route{name: name, operations: operations, allow: strings.Join(methods, ", ")}
	}
	return routes
}

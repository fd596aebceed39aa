package personalhttp

import (
	"net/http"
	"slices"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

func TestEndpoints_AreThoseOfTheOperations(t *testing.T) {
	mounted := map[personal.OperationName][]string{}
	for _, e := range Endpoints() {
		if mounted[e.Operation] != nil {
			t.Errorf("%s: got two endpoints, want one", e.Operation)
		}
		mounted[e.Operation] = e.Methods
	}
	for _, o := range personal.Operations() {
		methods, ok := mounted[o.Name]
		delete(mounted, o.Name)
		switch {
		case o.Administration && ok:
			t.Errorf("%s: an operation of administrators has an endpoint: remove it from shared/personalhttp/operations.go", o.Name)
		case o.Administration:
		case !ok:
			t.Errorf("%s has no endpoint: add it to shared/personalhttp/operations.go", o.Name)
		case slices.Contains(methods, http.MethodGet) && !o.Repeatable:
			t.Errorf("%s: got GET, which clients and proxies repeat, for an operation that is not Repeatable", o.Name)
		}
	}
	for name := range mounted {
		t.Errorf("%s has an endpoint but no row: add it to shared/personal/operations.go", name)
	}
}

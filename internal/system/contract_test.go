package system

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// TestContract checks what HTTP, the plugin process and the host make up together. The rest is tested
// closer to the code: the rules of the operations by personaltest, which plugin runs against the plugin
// process, and routing, bodies, headers and languages in personalhttp.
func TestContract(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled,
		flags: []string{"--trusted-proxy", "127.0.0.0/8", "--trusted-proxy", "10.0.0.0/8", "--log-level", "debug"}})
	s.putSchema(t, schema)
	t.Run("limits in the document", func(t *testing.T) { testDocumentLimits(t, s) })
	t.Run("ids of requests are logged", func(t *testing.T) { testRequestIDs(t, s) })
	t.Run("client address of X-Forwarded-For", func(t *testing.T) {
		testClientAddress(t, s, [4]string{"127.0.0.1", "203.0.113.9", "127.0.0.1", "203.0.113.9"})
	})
	t.Run("cookies by the scheme of a trusted proxy", func(t *testing.T) { testProxyScheme(t, s, true) })
}

// schema has a field of every type, not in the order in which they are shown.
const schema = `[
 {"name":"interests","type":"tags","order":9,"max_length":10},
 {"name":"phone","type":"text","label":{"en":"Phone","ru":"Телефон"},"hint":{"en":"Abroad too.","ru":"И за границей."},
  "pattern":"\\+[0-9]{5,15}","pattern_message":{"en":"Begin with +.","ru":"Начните с +."},"group":"contact","order":1},
 {"name":"about","type":"long_text","max_length":10,"order":2},
 {"name":"age","type":"integer","min":0,"max":150,"order":3},
 {"name":"height","type":"number","max":3,"order":4},
 {"name":"newsletter","type":"boolean","default":false,"order":5},
 {"name":"birthday","type":"date","order":6},
 {"name":"visited","type":"datetime","order":6},
 {"name":"colour","type":"enum","options":[{"value":"red","label":{"en":"Red","ru":"Красный"}},{"value":"blue"}],"order":7},
 {"name":"avatar","type":"file","order":8},
 {"name":"company","type":"link","order":8},
 {"name":"friends","type":"link_set","order":8},
 {"name":"secret_note","type":"text","hidden":true,"order":8},
 {"name":"customer_number","type":"text","read_only":true,"order":10}
]`

// testDocumentLimits checks that the limits in the handler's document are those that
// the plugin applies.
func testDocumentLimits(t *testing.T, s *system) {
	parameters := s.registerParameters(t)
	for _, name := range []string{"login", "name", "password", "about"} {
		p := parameters[name]
		if p.MaxLength == 0 || (name == "login" || name == "password") && p.MinLength < 2 {
			t.Fatalf("got limits %+v of %s", p, name)
		}
		lengths := map[int]string{p.MaxLength: "", p.MaxLength + 1: "too_long"}
		if p.MinLength > 1 {
			lengths[p.MinLength-1], lengths[p.MinLength] = "too_short", ""
		}
		for length, want := range lengths {
			value := applicant(params{name: strings.Repeat("qwzx", length)[:length]})
			value["confirm_password"] = value["password"]
			delete(value, "email") // so that nothing is stored: the shortest login may be taken
			if got := s.post(t, "register/", value).Result.Fields[name].Code; got != want {
				t.Errorf("%s of %d characters: got %q, want %q", name, length, got, want)
			}
		}
	}
}

type parameterSchema struct {
	MinLength int `json:"minLength"`
	MaxLength int `json:"maxLength"`
}

// registerParameters returns the parameters of register in the document.
func (s *system) registerParameters(t *testing.T) map[string]parameterSchema {
	t.Helper()
	var d struct {
		Components struct {
			Schemas struct {
				Register struct {
					Properties map[string]parameterSchema `json:"properties"`
				} `json:"register_parameters"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(s.getAs(t, pair{}, "openapi.json").Raw, &d); err != nil {
		t.Fatal(err)
	}
	return d.Components.Schemas.Register.Properties
}

func isCyrillic(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 'А' && r <= 'я' })
}

package personalhttp

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
)

func TestProfileData_EncodesEveryValueAsTheStandardLibraryDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*`), rapid.SampledFrom([]string{"\xff", "\u2028", "<&>", "\"", "\\"}))
		p := personal.Profile{Login: text.Draw(t, "login"), Email: text.Draw(t, "email")}
		want := map[string]any{"login": p.Login, "name": nil, "email": p.Email}
		if rapid.Bool().Draw(t, "with a name") {
			name := text.Draw(t, "name")
			p.Name, want["name"] = &name, name
		}
		value := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(),
			text.AsAny(), rapid.SliceOf(text).AsAny()).Draw(t, "value")
		p.Fields = []personal.ProfileField{{Name: "f", Value: value}}
		want["f"] = value

		got, err := marshal(profileData(p))
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := marshal(want); !sameJSON(t, got, text) {
			t.Fatalf("got %s, want %s", got, text)
		}
	})
}

func sameJSON(t *rapid.T, a, b []byte) bool {
	canonical := func(text []byte) string {
		var v map[string]json.RawMessage
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		sorted, _ := marshal(v)
		return string(sorted)
	}
	return canonical(a) == canonical(b)
}

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// api calls an operation with JSON and returns the status and the data.
func (s *site) api(operation string, params map[string]any, headers ...string) (int, map[string]any, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/personal/"+operation+"/", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	var envelope struct{ Data map[string]any }
	if err := json.Unmarshal(text, &envelope); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", text, err)
	}
	return response.StatusCode, envelope.Data, nil
}

// register makes an account by the API.
func (s *site) register(t *testing.T, login string) {
	t.Helper()
	s.registerWith(t, login, nil)
}

// registerWith makes an account with values of user fields.
func (s *site) registerWith(t *testing.T, login string, fields map[string]any) {
	t.Helper()
	params := map[string]any{"login": login, "email": login + "@example.com", "password": password, "confirm_password": password}
	maps.Copy(params, fields)
	status, _, err := s.api("register", params)
	if err != nil || status != http.StatusOK {
		t.Fatalf("registering %s: %d %v", login, status, err)
	}
}

// putFields brings a schema of user fields into force, as JSON.
func (s *site) putFields(t *testing.T, schema []byte) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPut, s.url+"/admin/api/user-fields", bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) // as far as it goes
		t.Fatalf("putting the user fields: %d %s", response.StatusCode, text)
	}
}

// password is everybody's.
const password = "correct horse battery"

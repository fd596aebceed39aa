package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// generate returns the methods of the host for a package with a source.
func generate(t *testing.T, contract reflect.Type, source string) (client, server string, err error) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "convert.go"), []byte("package rpc\n"+source), 0o600); err != nil {
		t.Fatal(err)
	}
	written, err := read(folder)
	if err != nil {
		t.Fatal(err)
	}
	c, s, err := written.generate(side{contract, reflect.TypeFor[personalv1.HostServiceClient](), "hostClient", "client", "hostServer", "host"})
	return string(c), string(s), err
}

const conversions = `
type converter interface {
	eventToPB(personal.Event) *personalv1.Event
	eventFromPB(*personalv1.Event) personal.Event
	schemaToPB(personal.Schema) (*personalv1.UserFieldsResponse, error)
	schemaFromPB(*personalv1.UserFieldsResponse) personal.Schema
}
func mailToPB(personal.Mail) *personalv1.SendMailRequest
func mailFromPB(*personalv1.SendMailRequest) personal.Mail
func (s *hostServer) SendMail() {}
`

func TestGenerate_ConvertsWholeMessagesAndTheirOnlyField(t *testing.T) {
	client, server, err := generate(t, reflect.TypeFor[personal.Host](), conversions)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"return result(ctx, convert.schemaFromPB)(c.client.UserFields(ctx, &personalv1.UserFieldsRequest{}))",
		"return failure(c.client.SendMail(ctx, mailToPB(in)))",
		"return failure(c.client.PublishEvent(ctx, &personalv1.PublishEventRequest{Event: convert.eventToPB(in)}))",
	} {
		if !strings.Contains(client, want) {
			t.Errorf("the client lacks %s:\n%s", want, client)
		}
	}
	for _, want := range []string{
		"return respond(convert.schemaToPB)(s.host.UserFields(ctx))",
		"return &personalv1.PublishEventResponse{}, s.host.PublishEvent(ctx, convert.eventFromPB(in.GetEvent()))",
	} {
		if !strings.Contains(server, want) {
			t.Errorf("the server lacks %s:\n%s", want, server)
		}
	}
	if strings.Contains(server, "SendMail") {
		t.Errorf("the server has a method that is handwritten:\n%s", server)
	}
}

func TestGenerate_SaysWhatIsMissing(t *testing.T) {
	for want, test := range map[string]struct {
		contract reflect.Type
		source   string
	}{
		"personal.Host.PublishEvent: add conversions between personal.Event and *personalv1.PublishEventRequest": {reflect.TypeFor[personal.Host](), ""},
		"personal.Service.AddPasskey: add an RPC": {reflect.TypeFor[personal.Service](), conversions},
	} {
		if _, _, err := generate(t, test.contract, test.source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

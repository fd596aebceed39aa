package harness

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// CMS is a host with an empty schema of user fields. It discards events and mails.
type CMS struct{}

// UserFields returns the empty schema.
func (CMS) UserFields(context.Context) (personal.Schema, error) {
	return personal.Schema{Revision: "empty"}, nil
}

// SendMail does nothing.
func (CMS) SendMail(context.Context, personal.Mail) error { return nil }

// PublishEvent does nothing.
func (CMS) PublishEvent(context.Context, personal.Event) error { return nil }

// StartManager starts a plugin with the manager in this process. Files are in the
// folder, which must exist and be empty. stop stops the plugin.
func StartManager(ctx context.Context, plugin, folder, database, settings string) (conn grpc.ClientConnInterface, stop func(), err error) {
	catalogue, err := catalogue.Open(filepath.Join(folder, "plugins"))
	if err != nil {
		return nil, nil, err
	}
	entry, err := catalogue.Install(ctx, plugin)
	if err != nil {
		return nil, nil, err
	}
	state, err := catalogue.LoadState()
	if err != nil {
		return nil, nil, err
	}
	state.Active = entry.Manifest.Version
	if err := catalogue.SaveState(state); err != nil {
		return nil, nil, err
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, nil, err
	}
	manager, err := manager.New(manager.Config{
		Catalogue:   catalogue,
		Host:        CMS{},
		DatabaseURL: database,
		Settings:    func() ([]byte, error) { return []byte(settings), nil },
		RunDir:      filepath.Join(folder, "run"),
		Log:         slog.New(slog.NewTextHandler(log, nil)), // so that logging costs as much as in the sample host
	})
	if err == nil {
		err = manager.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = manager.Stop(context.WithoutCancel(ctx)) // nothing can be done about an error
		_ = log.Close()
	}
	if err := manager.WaitReady(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return manager, stop, nil
}

package pluginrpc

import (
	"context"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// hostServer lets a plugin call the host.
type hostServer struct {
	personalv1.UnimplementedHostServiceServer
	host personal.Host
}

func (s *hostServer) UserFields(ctx context.Context, _ *personalv1.UserFieldsRequest) (*personalv1.UserFieldsResponse, error) {
	schema, err := s.host.UserFields(ctx)
	return schemaToPB(schema), err
}

func (s *hostServer) SendMail(ctx context.Context, in *personalv1.SendMailRequest) (*personalv1.SendMailResponse, error) {
	return &personalv1.SendMailResponse{}, s.host.SendMail(ctx, mailFromPB(in))
}

func (s *hostServer) PublishEvent(ctx context.Context, in *personalv1.PublishEventRequest) (*personalv1.PublishEventResponse, error) {
	return &personalv1.PublishEventResponse{}, s.host.PublishEvent(ctx, eventFromPB(in))
}

package pluginrpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// callbackTime bounds a callback whose context has no deadline.
const callbackTime = 10 * time.Second

// hostClient is the host as a plugin sees it.
type hostClient struct {
	client personalv1.HostServiceClient
}

func newHostClient(conn grpc.ClientConnInterface) *hostClient {
	callbacks := boundary{conn: conn, prepare: withoutRevision, limit: callbackTime}
	return &hostClient{client: personalv1.NewHostServiceClient(callbacks)}
}

// UserFields asks the host for the schema in force.
func (c *hostClient) UserFields(ctx context.Context) (personal.Schema, error) {
	answer, err := c.client.UserFields(ctx, &personalv1.UserFieldsRequest{})
	if err != nil {
		return personal.Schema{}, err
	}
	return schemaFromPB(answer), nil
}

// SendMail hands a mail to the host. A refusal for good arrives as a
// [*personal.MailRefusedError] wrapped in a [*personal.Error].
func (c *hostClient) SendMail(ctx context.Context, m personal.Mail) error {
	_, err := c.client.SendMail(ctx, mailToPB(m))
	return err
}

// PublishEvent tells the host what happened.
func (c *hostClient) PublishEvent(ctx context.Context, e personal.Event) error {
	_, err := c.client.PublishEvent(ctx, eventToPB(e))
	return err
}

func withoutRevision(ctx context.Context) context.Context { return withRevision(ctx, "") }

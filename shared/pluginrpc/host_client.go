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
	client  personalv1.HostServiceClient
	schemas schemaCache
}

func newHostClient(conn grpc.ClientConnInterface) *hostClient {
	callbacks := boundary{conn: conn, prepare: withoutRevision, limit: callbackTime}
	return &hostClient{client: personalv1.NewHostServiceClient(callbacks)}
}

// UserFields returns the schema of the revision that came with the call under
// way, from memory if it was seen before. Outside a call it asks the host. The
// schema is shared: it must not be changed.
func (c *hostClient) UserFields(ctx context.Context) (personal.Schema, error) {
	return c.schemas.get(ctx, revisionFrom(ctx), c.fetchSchema)
}

func (c *hostClient) fetchSchema(ctx context.Context) (personal.Schema, error) {
	// Several calls may wait for this answer, so it does not end with the first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callbackTime)
	defer cancel()
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

package pluginrpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

func mailToPB(m personal.Mail) *personalv1.SendMailRequest {
	return &personalv1.SendMailRequest{Id: m.ID, To: m.To, Subject: m.Subject, Text: m.Text, Html: m.HTML}
}

func mailFromPB(m *personalv1.SendMailRequest) personal.Mail {
	return personal.Mail{ID: m.GetId(), To: m.GetTo(), Subject: m.GetSubject(), Text: m.GetText(), HTML: m.GetHtml()}
}

func eventToPB(e personal.Event) *personalv1.PublishEventRequest {
	return &personalv1.PublishEventRequest{
		Id:        e.ID,
		Type:      string(e.Type),
		Time:      timeToPB(e.Time),
		UserId:    e.UserID,
		Address:   e.Address,
		RequestId: e.RequestID,
		Actor:     string(e.Actor),
		ActorName: e.ActorName,
	}
}

func eventFromPB(e *personalv1.PublishEventRequest) personal.Event {
	return personal.Event{
		ID:        e.GetId(),
		Type:      personal.EventType(e.GetType()),
		Time:      timeFromPB(e.GetTime()),
		UserID:    e.GetUserId(),
		Address:   e.GetAddress(),
		RequestID: e.GetRequestId(),
		Actor:     personal.Actor(e.GetActor()),
		ActorName: e.GetActorName(),
	}
}

package pluginrpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

func findUsersToPB(r personal.FindUsersRequest) *personalv1.FindUsersRequest {
	return &personalv1.FindUsersRequest{Search: r.Search, State: string(r.State), After: r.After, Limit: int64(r.Limit)}
}

func findUsersFromPB(r *personalv1.FindUsersRequest) personal.FindUsersRequest {
	return personal.FindUsersRequest{
		Search: r.GetSearch(),
		State:  personal.UserState(r.GetState()),
		After:  r.GetAfter(),
		Limit:  int(r.GetLimit()),
	}
}

func userPageToPB(p personal.UserPage) *personalv1.FindUsersResponse {
	return &personalv1.FindUsersResponse{Users: convertAll(p.Users, userToPB), Next: p.Next}
}

func userPageFromPB(p *personalv1.FindUsersResponse) personal.UserPage {
	return personal.UserPage{Users: convertAll(p.GetUsers(), userFromPB), Next: p.GetNext()}
}

func userToPB(u personal.User) *personalv1.User {
	return &personalv1.User{
		Id:       u.ID,
		Login:    u.Login,
		Name:     u.Name,
		Email:    u.Email,
		Disabled: u.Disabled,
		Created:  timeToPB(u.Created),
		Updated:  timeToPB(u.Updated),
		LastSeen: timeToPB(u.LastSeen),
	}
}

func userFromPB(u *personalv1.User) personal.User {
	user := personal.User{
		ID:       u.GetId(),
		Login:    u.GetLogin(),
		Email:    u.GetEmail(),
		Disabled: u.GetDisabled(),
		Created:  timeFromPB(u.GetCreated()),
		Updated:  timeFromPB(u.GetUpdated()),
		LastSeen: timeFromPB(u.GetLastSeen()),
	}
	if u != nil {
		user.Name = u.Name
	}
	return user
}

func userRecordToPB(r personal.UserRecord) (*personalv1.UserResponse, error) {
	fields, err := profileFieldsToPB(r.Fields)
	if err != nil {
		return nil, err
	}
	return &personalv1.UserResponse{User: userToPB(r.User), Fields: fields}, nil
}

func userRecordFromPB(r *personalv1.UserResponse) personal.UserRecord {
	return personal.UserRecord{User: userFromPB(r.GetUser()), Fields: convertAll(r.GetFields(), profileFieldFromPB)}
}

func updateUserToPB(r personal.UpdateUserRequest) *personalv1.UpdateUserRequest {
	return &personalv1.UpdateUserRequest{UserId: r.UserID, Fields: inputsToPB(r.Fields)}
}

func updateUserFromPB(r *personalv1.UpdateUserRequest) personal.UpdateUserRequest {
	return personal.UpdateUserRequest{UserID: r.GetUserId(), Fields: inputsFromPB(r.GetFields())}
}

func setEmailToPB(r personal.SetEmailRequest) *personalv1.SetEmailRequest {
	return &personalv1.SetEmailRequest{UserId: r.UserID, Email: r.Email}
}

func setEmailFromPB(r *personalv1.SetEmailRequest) personal.SetEmailRequest {
	return personal.SetEmailRequest{UserID: r.GetUserId(), Email: r.GetEmail()}
}

func auditEntriesToPB(r personal.AuditEntriesRequest) *personalv1.AuditEntriesRequest {
	return &personalv1.AuditEntriesRequest{
		Type:   string(r.Type),
		UserId: r.UserID,
		Text:   r.Text,
		Since:  timeToPB(r.Since),
		Until:  timeToPB(r.Until),
		After:  r.After,
		Limit:  int64(r.Limit),
	}
}

func auditEntriesFromPB(r *personalv1.AuditEntriesRequest) personal.AuditEntriesRequest {
	return personal.AuditEntriesRequest{
		Type:   personal.EventType(r.GetType()),
		UserID: r.GetUserId(),
		Text:   r.GetText(),
		Since:  timeFromPB(r.GetSince()),
		Until:  timeFromPB(r.GetUntil()),
		After:  r.GetAfter(),
		Limit:  int(r.GetLimit()),
	}
}

func auditPageToPB(p personal.AuditPage) *personalv1.AuditEntriesResponse {
	return &personalv1.AuditEntriesResponse{Entries: convertAll(p.Entries, auditEntryToPB), Next: p.Next}
}

func auditPageFromPB(p *personalv1.AuditEntriesResponse) personal.AuditPage {
	return personal.AuditPage{Entries: convertAll(p.GetEntries(), auditEntryFromPB), Next: p.GetNext()}
}

func auditEntryToPB(e personal.AuditEntry) *personalv1.AuditEntry {
	return &personalv1.AuditEntry{
		Cursor:    e.Cursor,
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

func auditEntryFromPB(e *personalv1.AuditEntry) personal.AuditEntry {
	return personal.AuditEntry{
		Cursor: e.GetCursor(),
		Event: personal.Event{
			ID:        e.GetId(),
			Type:      personal.EventType(e.GetType()),
			Time:      timeFromPB(e.GetTime()),
			UserID:    e.GetUserId(),
			Address:   e.GetAddress(),
			RequestID: e.GetRequestId(),
			Actor:     personal.Actor(e.GetActor()),
			ActorName: e.GetActorName(),
		},
	}
}

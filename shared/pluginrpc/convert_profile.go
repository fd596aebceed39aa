package pluginrpc

import (
	"fmt"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

func profileToPB(p personal.Profile) (*personalv1.UserProfile, error) {
	fields, err := profileFieldsToPB(p.Fields)
	if err != nil {
		return nil, err
	}
	return &personalv1.UserProfile{Login: p.Login, Name: p.Name, Email: p.Email, Fields: fields}, nil
}

func profileFieldsToPB(from []personal.ProfileField) ([]*personalv1.ProfileField, error) {
	fields := make([]*personalv1.ProfileField, len(from))
	for i, f := range from {
		value, err := valueToPB(f.Value)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		fields[i] = &personalv1.ProfileField{Name: f.Name, Value: value}
	}
	return fields, nil
}

func profileFromPB(p *personalv1.UserProfile) personal.Profile {
	profile := personal.Profile{Login: p.GetLogin(), Email: p.GetEmail(), Fields: convertAll(p.GetFields(), profileFieldFromPB)}
	if p != nil {
		profile.Name = p.Name
	}
	return profile
}

func profileFieldFromPB(f *personalv1.ProfileField) personal.ProfileField {
	return personal.ProfileField{Name: f.GetName(), Value: valueFromPB(f.GetValue())}
}

func sessionToPB(s personal.Session) *personalv1.Session {
	return &personalv1.Session{
		Id:       s.ID,
		Created:  timeToPB(s.Created),
		LastSeen: timeToPB(s.LastSeen),
		Expires:  timeToPB(s.Expires),
		Address:  s.Address,
		Agent:    s.Agent,
		Current:  s.Current,
	}
}

func sessionFromPB(s *personalv1.Session) personal.Session {
	return personal.Session{
		ID:       s.GetId(),
		Created:  timeFromPB(s.GetCreated()),
		LastSeen: timeFromPB(s.GetLastSeen()),
		Expires:  timeFromPB(s.GetExpires()),
		Address:  s.GetAddress(),
		Agent:    s.GetAgent(),
		Current:  s.GetCurrent(),
	}
}

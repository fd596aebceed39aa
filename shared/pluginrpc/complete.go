package pluginrpc

import (
	"context"
	"errors"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// The functions of this file take an answer for a success only if it is whole:
// nobody is signed in by an empty message.

var errIncomplete = errors.New("the plugin's answer lacks a part")

func signedInOf(ctx context.Context, c *personalv1.Credentials, p *personalv1.UserProfile) (personal.SignedIn, error) {
	credentials, err := credentialsOf(ctx, c)
	if err != nil {
		return personal.SignedIn{}, err
	}
	profile, err := profileOf(ctx, p)
	if err != nil {
		return personal.SignedIn{}, err
	}
	return personal.SignedIn{Credentials: credentials, Profile: profile}, nil
}

func credentialsOf(ctx context.Context, c *personalv1.Credentials) (personal.Credentials, error) {
	if c.GetUserId() < 1 || c.GetUserHash() == "" {
		return personal.Credentials{}, incomplete(ctx)
	}
	return credentialsFromPB(c), nil
}

func profileOf(ctx context.Context, p *personalv1.UserProfile) (personal.Profile, error) {
	if p.GetLogin() == "" {
		return personal.Profile{}, incomplete(ctx)
	}
	return profileFromPB(p), nil
}

func userRecordOf(ctx context.Context, r *personalv1.UserResponse) (personal.UserRecord, error) {
	if r.GetUser().GetId() < 1 {
		return personal.UserRecord{}, incomplete(ctx)
	}
	return userRecordFromPB(r), nil
}

func incomplete(ctx context.Context) error {
	return &personal.Error{Code: personal.CodeInternal, RequestID: requestID(ctx), Cause: errIncomplete}
}

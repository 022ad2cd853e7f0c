package api

import (
	"context"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// secretItem describes a secret without its value.
type secretItem struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt" doc:"When it got its value"`
}

func secretItemOf(i secret.Info) secretItem {
	return secretItem{Name: i.Name, CreatedAt: i.CreatedAt.UTC(), UpdatedAt: i.UpdatedAt.UTC()}
}

type putSecretInput struct {
	Body struct {
		Name  string `json:"name" pattern:"^[.]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$" patternDescription:"letters, digits and . _ -, not dots alone" maxLength:"64" doc:"What configurations refer to it by: {\"$secret\": name}"`
		Value string `json:"value" minLength:"1" maxLength:"65536" doc:"At most 64 KiB; nothing reads it back"`
	}
}

type putSecretOutput struct {
	Status   int
	Location string `header:"Location"`
	Body     secretItem
}

// putSecret stores a secret, encrypted. It returns 201 for a new name, and 200 if it replaces a
// value. It is called by the Engine Room and by scripts.
func (s *server) putSecret(ctx context.Context, in *putSecretInput) (*putSecretOutput, error) {
	by, _ := auth.From(ctx)
	// Seal runs before the transaction, because it may call the key service.
	value := secret.NewValue(in.Body.Value)
	draft, err := s.Secrets.Seal(ctx, by.Workspace, in.Body.Name, value)
	if err != nil {
		return nil, err
	}
	s.Guard.Learn(by.Workspace, value)
	var info secret.Info
	err = s.change(ctx, "secret.put", func(ctx context.Context, tx *db.Tx) (err error) {
		info, err = s.Secrets.PutIn(ctx, tx, draft, principal(by))
		return err
	}, "name", &info.Name, "version", &info.Version)
	if err != nil {
		return nil, err
	}
	out := &putSecretOutput{Status: http.StatusOK, Body: secretItemOf(info)}
	if info.Version == 1 {
		out.Status, out.Location = http.StatusCreated, "/api/v1/secrets/"+info.Name
	}
	return out, nil
}

type secretsInput struct {
	Cursor string `query:"cursor" maxLength:"400"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listSecrets lists secrets by name, without their values. It is called by the Engine Room and by
// scripts.
func (s *server) listSecrets(ctx context.Context, in *secretsInput) (*answer[page[secretItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if in.Cursor != "" && !secret.ValidName(after.key) {
		return nil, badCursor
	}
	found, err := s.Secrets.List(ctx, workspace(ctx), after.key, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return sorted(found, in.Limit, func(i secret.Info) string { return i.Name }, secretItemOf), nil
}

type secretPath struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9_.-]+$" patternDescription:"letters, digits and . _ -" maxLength:"64"`
}

// getSecret returns one secret, without its value. It is called by the Engine Room and by scripts.
func (s *server) getSecret(ctx context.Context, in *secretPath) (*answer[secretItem], error) {
	info, err := s.Secrets.Info(ctx, workspace(ctx), in.Name)
	if err != nil {
		return nil, err
	}
	return answered(secretItemOf(info)), nil
}

// deleteSecret deletes a secret. Configurations that refer to it fail from then on. It is called by
// the Engine Room and by scripts.
func (s *server) deleteSecret(ctx context.Context, in *secretPath) (*struct{}, error) {
	return nil, s.change(ctx, "secret.delete", func(ctx context.Context, tx *db.Tx) error {
		return s.Secrets.DeleteIn(ctx, tx, in.Name)
	}, "name", in.Name)
}

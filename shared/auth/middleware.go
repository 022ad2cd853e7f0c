package auth

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Require lets only requests with a valid token pass, the principal in their
// context; others get 401 as problem+json, which says that the token is missing
// or invalid and nothing more. unsure answers where a verifier could not tell.
func (a *Authenticator) Require(next http.Handler, unsure func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := a.principal(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(With(r.Context(), p)))
		case errors.Is(err, ErrMissing), errors.Is(err, ErrInvalid):
			unauthorized(w, r, err)
		default:
			unsure(w, r, err)
		}
	})
}

// Admit lets every request pass, with the principal in its context where the
// token is valid.
func (a *Authenticator) Admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, err := a.principal(r); err == nil {
			r = r.WithContext(With(r.Context(), p))
		}
		next.ServeHTTP(w, r)
	})
}

func (a *Authenticator) principal(r *http.Request) (Principal, error) {
	token, err := bearer(r.Header)
	if err != nil {
		return Principal{}, err
	}
	return a.Authenticate(r.Context(), token)
}

// bearer is the token of an Authorization header. Two headers are none we would
// choose between.
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", ErrMissing
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", ErrInvalid
	}
	return strings.TrimSpace(token), nil
}

// unauthorized answers 401 in the shape of every problem of the API.
func unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	id, _ := trace.From(r.Context())
	code, challenge := "missing_token", "Bearer"
	if errors.Is(err, ErrInvalid) {
		code, challenge = "invalid_token", `Bearer error="invalid_token"`
		err = ErrInvalid
	}
	body, _ := json.Marshal(struct { // strings always encode
		Type   string   `json:"type"`
		Title  string   `json:"title"`
		Status int      `json:"status"`
		Detail string   `json:"detail"`
		Code   string   `json:"code"`
		Trace  trace.ID `json:"traceId,omitempty"`
	}{"urn:lanekeeper:problem:" + code, "Unauthorized", http.StatusUnauthorized, err.Error(), code, id})
	w.Header().Set("WWW-Authenticate", challenge)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(append(body, '\n'))
}

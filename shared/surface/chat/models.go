package chat

import (
	"context"
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/persona"
)

// model is an agent that visitors can talk with. Its id is the name of its persona.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`  // model
	Created int64  `json:"created"` // seconds of Unix time; 0: it came with the product
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string  `json:"object"` // list
	Data   []model `json:"data"`
}

func modelOf(p persona.Persona) model {
	m := model{ID: p.Name, Object: "model", OwnedBy: "lanekeeper"}
	if !p.CreatedAt.IsZero() {
		m.Created = p.CreatedAt.Unix()
	}
	return m
}

// maxModels is how many agents are listed.
const maxModels = 1000

// listModels lists the agents that the caller may talk with: GET /v1/models.
func (h *Handler) listModels(w http.ResponseWriter, r *http.Request, v *visit) {
	if p := h.look(r.Context(), v); p != nil {
		h.refuse(w, r, p)
		return
	}
	list := modelList{Object: "list", Data: []model{}}
	if own := v.persona(); own != "" {
		found, err := h.find(r.Context(), v, own)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		list.Data = append(list.Data, modelOf(found))
		write(w, http.StatusOK, list)
		return
	}
	ctx, cancel := within(r.Context())
	defer cancel()
	const page = 100
	for after := ""; len(list.Data) < maxModels; {
		found, err := h.Personas.List(ctx, v.Workspace, after, page)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		for _, p := range found {
			if p.Serves(persona.Chat) {
				list.Data = append(list.Data, modelOf(p))
			}
			after = p.Name
		}
		if len(found) < page {
			break
		}
	}
	write(w, http.StatusOK, list)
}

// getModel tells of one: GET /v1/models/{model}.
func (h *Handler) getModel(w http.ResponseWriter, r *http.Request, v *visit) {
	if p := h.look(r.Context(), v); p != nil {
		h.refuse(w, r, p)
		return
	}
	found, err := h.find(r.Context(), v, r.PathValue("model"))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	write(w, http.StatusOK, modelOf(found))
}

// find finds the agent of a name, if the caller may talk with it; else the error is
// [persona.ErrNotFound].
func (h *Handler) find(ctx context.Context, v *visit, name string) (persona.Persona, error) {
	if own := v.persona(); own != "" && own != name {
		return persona.Persona{}, persona.ErrNotFound
	}
	if builtin, ok := persona.Builtin(name); ok && !builtin.Serves(persona.Chat) || !fit(name) || len(name) > maxName {
		return persona.Persona{}, persona.ErrNotFound
	}
	ctx, cancel := within(ctx)
	defer cancel()
	found, err := h.Personas.Get(ctx, v.Workspace, name)
	if err == nil && !found.Serves(persona.Chat) {
		err = persona.ErrNotFound
	}
	return found, err
}

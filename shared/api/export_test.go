package api

import (
	"github.com/lanekeeper/lanekeeper/shared/auth"
)

// Route is a row of the table, as tests see it.
type Route struct {
	Method, Path, ID string
	Least            auth.Role
	Caller, Summary  string
	IsFile           bool
	Kinds            []auth.Kind
	Persons          bool
	Front            bool
	Ours             bool
}

// Routes is the table.
func Routes() []Route {
	var out []Route
	for _, r := range routes(&server{}) {
		out = append(out, Route{r.method, r.path, r.id, r.least, r.caller, r.summary, tag(r.path) == "about" && r.path != "/health", r.kinds, r.persons, r.front, r.ours})
	}
	return out
}

// MaxBody is the most bytes a body may have.
const MaxBody = maxBody

// SurfaceOf and SurfaceName turn names into prefixes and back.
var SurfaceOf, SurfaceName = surfaceOf, surfaceName

// Worded and Located are how huma's own errors are told.
var Worded, Located = worded, located

// Misfit is how a violation of a skill's parameters is told.
var Misfit = misfit

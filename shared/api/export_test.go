package api

import (
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/overview"
)

// Route is a row of the table of routes.
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

// Routes returns the table of routes.
func Routes() []Route {
	var out []Route
	for _, r := range routes(&server{}) {
		out = append(out, Route{r.method, r.path, r.id, r.least, r.caller, r.summary, tag(r.path) == "about" && r.path != "/health", r.kinds, r.persons, r.front, r.ours})
	}
	return out
}

// Doors returns the method and the path of each route that the document describes and others serve.
func Doors() (all []string) {
	for _, d := range doors() {
		all = append(all, d.method+" "+d.path)
	}
	return all
}

// MaxBody is the largest body in bytes.
const MaxBody = maxBody

// SurfaceOf and SurfaceName convert between names and prefixes of surfaces.
var SurfaceOf, SurfaceName = surfaceOf, surfaceName

// Worded and Located convert huma's errors.
var Worded, Located = worded, located

// Misfit describes a violation of a skill's parameters.
var Misfit = misfit

// Waiting is how many tasks the overview says that wait, and whether more may.
func Waiting(f *overview.Facts) (int, bool) {
	t := tasksOf(f)
	return t.Waiting, t.WaitingMore
}

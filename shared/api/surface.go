package api

import "github.com/lanekeeper/lanekeeper/shared/trace"

// surface is a surface by its name; a trace has the prefix.
type surface struct {
	prefix trace.Surface
	name   string
}

// surfaces are all of them. Filters take names and prefixes, answers tell names.
var surfaces = []surface{
	{trace.Heartbeat, "heartbeat"},
	{trace.Operate, "operate"},
	{trace.Chat, "chat"},
	{trace.Webhook, "webhook"},
	{trace.Coordinator, "coordinator"},
	{trace.Worker, "worker"},
}

func surfaceName(prefix trace.Surface) string {
	for _, s := range surfaces {
		if s.prefix == prefix {
			return s.name
		}
	}
	return string(prefix)
}

// surfaceOf is the surface with a name or a prefix.
func surfaceOf(text string) trace.Surface {
	for _, s := range surfaces {
		if s.name == text {
			return s.prefix
		}
	}
	return trace.Surface(text)
}

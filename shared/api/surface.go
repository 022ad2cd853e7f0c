package api

import "github.com/lanekeeper/lanekeeper/shared/trace"

// surface pairs the prefix of a surface, which traces use, with its name.
type surface struct {
	prefix trace.Surface
	name   string
}

// surfaces lists all surfaces. Filters accept names and prefixes; responses use names.
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

// surfaceOf returns the surface with a name or a prefix.
func surfaceOf(text string) trace.Surface {
	for _, s := range surfaces {
		if s.name == text {
			return s.prefix
		}
	}
	return trace.Surface(text)
}

package api

import "github.com/lanekeeper/lanekeeper/shared/trace"

// surfaces lists all surfaces. Filters accept names and prefixes; responses use names.
var surfaces = []trace.Surface{trace.Heartbeat, trace.Operate, trace.Chat, trace.Webhook, trace.Coordinator, trace.Worker}

func surfaceName(prefix trace.Surface) string { return prefix.Name() }

// surfaceOf returns the surface with a name or a prefix.
func surfaceOf(text string) trace.Surface {
	for _, s := range surfaces {
		if s.Name() == text {
			return s
		}
	}
	return trace.Surface(text)
}

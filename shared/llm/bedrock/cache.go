package bedrock

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

// Cache says whether requests contain cache points. Bedrock caches a prompt up to a cache point, so
// that a later request with the same beginning is cheaper. A model without cache support refuses
// requests with cache points. The zero value sets them only if the model's id says that the model
// supports caching.
type Cache string

// The other cache modes.
const (
	CacheAlways Cache = "always" // for models whose id does not say it, such as application inference profiles
	CacheNever  Cache = "never"
)

// points says where a model accepts cache points.
type points struct{ tools, system, messages bool }

// withoutCache lists the Claude models without cache support on Bedrock.
var withoutCache = []string{
	"anthropic.claude-v2", "anthropic.claude-instant", "anthropic.claude-3-haiku", "anthropic.claude-3-sonnet",
	"anthropic.claude-3-opus", "anthropic.claude-3-5-sonnet-20240620",
}

// points returns where to set cache points for a model. The id may also be that of an inference
// profile ("eu.anthropic.claude-…") or the end of an ARN.
func (c Cache) points(model string) points {
	in := func(part string) bool { return strings.Contains(model, part) }
	switch {
	case c == CacheNever:
		return points{}
	case in("amazon.nova-"):
		return points{system: true, messages: true}
	case c == CacheAlways, in("anthropic.claude") && !slices.ContainsFunc(withoutCache, in):
		return points{tools: true, system: true, messages: true}
	}
	return points{}
}

func cachePoint() types.CachePointBlock {
	return types.CachePointBlock{Type: types.CachePointTypeDefault}
}

package bedrock

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

// Cache says whether cache points are set: marks up to which Bedrock keeps a
// prompt, so that the next request that begins alike is cheaper. A model that
// knows no cache points refuses requests that have them.
type Cache string

// The ways to cache.
const (
	CacheKnown  Cache = ""       // where the model's id says that it can
	CacheAlways Cache = "always" // for models whose id does not tell, such as application inference profiles
	CacheNever  Cache = "never"
)

// points are the places where a model takes cache points.
type points struct{ tools, system, messages bool }

// withoutCache are the Claude models from before Bedrock had a cache.
var withoutCache = []string{
	"anthropic.claude-v2", "anthropic.claude-instant", "anthropic.claude-3-haiku", "anthropic.claude-3-sonnet",
	"anthropic.claude-3-opus", "anthropic.claude-3-5-sonnet-20240620",
}

// points says where to set cache points for a model, by its id, which may be that
// of an inference profile ("eu.anthropic.claude-…") or end an ARN.
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

package bedrock

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// input converts a request to Bedrock's form.
func (m *Model) input(req llm.Request) (*bedrockruntime.ConverseInput, error) {
	model := cmp.Or(req.Model, m.cfg.Model)
	if model == "" {
		return nil, errors.New("no model is set")
	}
	cache := m.cfg.Cache.points(model)
	in := &bedrockruntime.ConverseInput{
		ModelId:         aws.String(model),
		System:          system(req.System, cache.system),
		Messages:        messages(req, cache.messages),
		InferenceConfig: inference(req),
	}
	var err error
	in.ToolConfig, err = tools(req.Tools, cache.tools)
	return in, err
}

// streamed returns the same request for a stream.
func streamed(in *bedrockruntime.ConverseInput) *bedrockruntime.ConverseStreamInput {
	return &bedrockruntime.ConverseStreamInput{
		ModelId: in.ModelId, System: in.System, Messages: in.Messages, InferenceConfig: in.InferenceConfig, ToolConfig: in.ToolConfig,
	}
}

func system(prompt string, cached bool) []types.SystemContentBlock {
	if blank(prompt) {
		return nil
	}
	out := []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: prompt}}
	if cached {
		out = append(out, &types.SystemContentBlockMemberCachePoint{Value: cachePoint()})
	}
	return out
}

// maxTemperature is the highest that Bedrock takes.
const maxTemperature = 1

func inference(req llm.Request) *types.InferenceConfiguration {
	if req.MaxTokens <= 0 && req.Temperature == nil {
		return nil
	}
	out := &types.InferenceConfiguration{}
	if req.MaxTokens > 0 {
		out.MaxTokens = aws.Int32(int32(min(req.MaxTokens, 1<<30)))
	}
	if req.Temperature != nil {
		out.Temperature = aws.Float32(float32(min(*req.Temperature, maxTemperature)))
	}
	return out
}

func tools(offered []llm.Tool, cached bool) (*types.ToolConfiguration, error) {
	if len(offered) == 0 {
		return nil, nil //nolint:nilnil // nothing to configure
	}
	out := &types.ToolConfiguration{}
	for _, t := range offered {
		schema, err := schemaDocument(t.Parameters)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		spec := types.ToolSpecification{Name: aws.String(t.Name), InputSchema: &types.ToolInputSchemaMemberJson{Value: schema}}
		if !blank(t.Description) {
			spec.Description = aws.String(t.Description)
		}
		out.Tools = append(out.Tools, &types.ToolMemberToolSpec{Value: spec})
	}
	if cached {
		out.Tools = append(out.Tools, &types.ToolMemberCachePoint{Value: cachePoint()})
	}
	return out, nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

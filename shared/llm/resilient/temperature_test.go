package resilient_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
)

// TestAModelThatTakesNoTemperature is asked again without one, and from then on without one, for every workspace.
// The other models of the chain keep it.
func TestAModelThatTakesNoTemperature(t *testing.T) {
	for name, why := range map[string]string{
		"OpenAI": "HTTP 400: unsupported_value: Unsupported value: 'temperature' does not support 0.7 with this model. " +
			"Only the default (1) value is supported.",
		"OpenAI's o3": "HTTP 400: unsupported_parameter: Unsupported parameter: 'temperature' is not supported with this model.",
		"LiteLLM": "HTTP 400: litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0.7. " +
			"Only temperature=1 is supported.",
		"Bedrock":  "ValidationException: The model returned the following errors: `temperature` is deprecated for this model.",
		"Moonshot": "HTTP 400: invalid_request_error: invalid temperature: only 1 is allowed for this model",
	} {
		t.Run(name, func(t *testing.T) {
			p := provider("first", refuses(why), say("hi"), say("hi"), fail(llm.ClassAuthentication))
			other := provider("second", say("other"))
			w := chain(t, nil, resilient.Provider{Model: p}, resilient.Provider{Model: other})
			warm := 0.7
			req := request
			req.Temperature = &warm
			for _, want := range []string{"hi", "hi", "other"} {
				if resp, err := w.For("ws").Generate(t.Context(), req, nil); err != nil || resp.Text != want {
					t.Fatalf("got %+v, %v", resp, err)
				}
			}
			var sent []bool
			for _, r := range append(p.asked, other.asked...) {
				sent = append(sent, r.Temperature != nil)
			}
			if len(sent) != 5 || !sent[0] || sent[1] || sent[2] || sent[3] || !sent[4] {
				t.Errorf("a temperature was sent: %v", sent)
			}
			if c := w.observed(); len(c) != 4 || c[0].Tries != 2 || c[0].Err != nil {
				t.Errorf("observed %+v", c)
			}
		})
	}
}

// TestATemperatureOutOfRange is the request's fault, and so is another refusal.
func TestATemperatureOutOfRange(t *testing.T) {
	for _, why := range []string{"temperature: range: 0..1", "the tools are not supported"} {
		p := provider("first", refuses(why))
		warm := 1.5
		req := request
		req.Temperature = &warm
		_, err := chain(t, nil, resilient.Provider{Model: p}).For("ws").Generate(t.Context(), req, nil)
		if llm.ClassOf(err) != llm.ClassBadRequest || p.times() != 1 {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// refuses fails with a text of the provider.
func refuses(why string) step {
	return func(context.Context, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Err: errors.New(why)}
	}
}

// TestARefusalForAnotherReason that names the temperature beside it does not take it from later requests.
func TestARefusalForAnotherReason(t *testing.T) {
	why := refuses("this model does not support tools; supported parameters: temperature, max_tokens")
	p := provider("first", why, why, say("hi"))
	m := chain(t, nil, resilient.Provider{Model: p}).For("ws")
	warm := 0.7
	req := request
	req.Temperature = &warm
	if _, err := m.Generate(t.Context(), req, nil); llm.ClassOf(err) != llm.ClassBadRequest {
		t.Errorf("got %v", err)
	}
	if _, err := m.Generate(t.Context(), req, nil); err != nil || p.asked[len(p.asked)-1].Temperature == nil {
		t.Errorf("later it is asked without a temperature, %v", err)
	}
}

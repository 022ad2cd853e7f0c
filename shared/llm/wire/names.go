package wire

import "github.com/lanekeeper/lanekeeper/shared/llm"

// names maps error types and codes of OpenAI, Anthropic and compatible providers to classes. The
// keys are in lower case.
var names = map[string]llm.ErrorClass{
	"authentication_error":  llm.ClassAuthentication,
	"authenticationerror":   llm.ClassAuthentication,
	"permission_error":      llm.ClassAuthentication,
	"permissiondeniederror": llm.ClassAuthentication,
	"invalid_api_key":       llm.ClassAuthentication,
	"unauthorized":          llm.ClassAuthentication,

	"billing_error":              llm.ClassBilling,
	"insufficient_quota":         llm.ClassBilling,
	"insufficient_credits":       llm.ClassBilling,
	"insufficient_balance":       llm.ClassBilling,
	"billing_hard_limit_reached": llm.ClassBilling,
	"billing_not_active":         llm.ClassBilling,

	"rate_limit_error":    llm.ClassRateLimit,
	"rate_limit_exceeded": llm.ClassRateLimit,
	"ratelimiterror":      llm.ClassRateLimit,
	"too_many_requests":   llm.ClassRateLimit,

	"overloaded_error":        llm.ClassOverloaded,
	"engine_overloaded":       llm.ClassOverloaded,
	"engine_overloaded_error": llm.ClassOverloaded,
	"server_overloaded":       llm.ClassOverloaded,
	"service_unavailable":     llm.ClassOverloaded,

	"invalid_request_error": llm.ClassBadRequest,
	"badrequesterror":       llm.ClassBadRequest,
	"not_found_error":       llm.ClassBadRequest,
	"notfounderror":         llm.ClassBadRequest,
	"model_not_found":       llm.ClassBadRequest,

	"context_length_exceeded":       llm.ClassContextTooLong,
	"contextwindowexceedederror":    llm.ClassContextTooLong,
	"exceed_context_size_error":     llm.ClassContextTooLong,
	"model_context_window_exceeded": llm.ClassContextTooLong,
	"request_too_large":             llm.ClassContextTooLong,
	"string_above_max_length":       llm.ClassContextTooLong,

	"content_filter":              llm.ClassRefused,
	"content_policy_violation":    llm.ClassRefused,
	"contentpolicyviolationerror": llm.ClassRefused,
	"data_inspection_failed":      llm.ClassRefused,
	"invalid_prompt":              llm.ClassRefused,
	"moderation_blocked":          llm.ClassRefused,

	"timeout_error":       llm.ClassUnavailable, // a timeout on the provider's side
	"tool_use_failed":     llm.ClassUnavailable, // Groq can't read what the model wrote, which is other the next time
	"output_parse_failed": llm.ClassUnavailable,
}

// words classifies errors that share one name, mostly invalid_request_error, by their message. The
// texts are in lower case.
var words = []struct {
	text  string
	class llm.ErrorClass
}{
	{"prompt is too long", llm.ClassContextTooLong},
	{"input is too long", llm.ClassContextTooLong},
	{"context length", llm.ClassContextTooLong},
	{"context window", llm.ClassContextTooLong},
	{"context limit", llm.ClassContextTooLong},
	{"context size", llm.ClassContextTooLong},
	{"input token count", llm.ClassContextTooLong},
	{"too many input tokens", llm.ClassContextTooLong},
	{"prompt token count", llm.ClassContextTooLong},
	{"maximum prompt length", llm.ClassContextTooLong},
	{"maximum model length", llm.ClassContextTooLong},
	{"prompt exceeds max length", llm.ClassContextTooLong},
	{"exceeded model token limit", llm.ClassContextTooLong},
	{"range of input length", llm.ClassContextTooLong},
	{"tokens + `max_new_tokens`", llm.ClassContextTooLong},
	{"reduce the length of", llm.ClassContextTooLong},
	{"request too large for", llm.ClassContextTooLong}, // OpenAI's 429 for a request larger than the limit per minute

	{"please retry in", llm.ClassRateLimit}, // Gemini tells of its limits per minute as OpenAI does of an empty account

	{"api key not valid", llm.ClassAuthentication},          // Gemini's 400
	{"incorrect api key provided", llm.ClassAuthentication}, // xAI's 400

	{"credit balance is too low", llm.ClassBilling},
	{"insufficient credits", llm.ClassBilling},
	{"exceeded your current quota", llm.ClassBilling},
	{"reached your specified api usage limits", llm.ClassBilling},

	{"content filtering policy", llm.ClassRefused},
	{"content management policy", llm.ClassRefused},
	{"content policy", llm.ClassRefused},
	{"violating our usage policy", llm.ClassRefused},
	{"input was flagged", llm.ClassRefused},
}

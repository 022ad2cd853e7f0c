package infra_test

import (
	"strings"
	"testing"
)

// cfn-lint accepts a misspelt mode, and responses would then be buffered.
func TestOperateAndChatStream(t *testing.T) {
	x := load(t)
	streams(t, x, "Operate", 300)
	streams(t, x, "Chat", 120)
	if got := len(x.of("AWS::Lambda::Permission")); got != 8 { // three each, the webhooks' and the coordinator's
		t.Errorf("%d permissions to invoke", got)
	}
}

// streams checks the address of a function that may take so many seconds.
func streams(t *testing.T, x template, name string, seconds int) {
	t.Helper()
	api := x.Resources[name+"Api"]
	paths, _ := api.has("Body.paths").(map[string]any)
	if api.Condition != "OnRestApi" || len(paths) != 2 {
		t.Fatalf("the API has %d paths, on condition %q", len(paths), api.Condition)
	}
	for _, path := range []string{"/", "/{proxy+}"} {
		methods, _ := paths[path].(map[string]any)
		method, _ := methods["x-amazon-apigateway-any-method"].(map[string]any)
		i, _ := method["x-amazon-apigateway-integration"].(map[string]any)
		uri := string(encode(t, i["uri"]))
		if i["responseTransferMode"] != "STREAM" || i["type"] != "aws_proxy" || i["httpMethod"] != "POST" || len(methods) != 1 ||
			!strings.Contains(uri, "/2021-11-15/functions/${"+name+"Function.Arn}/response-streaming-invocations") {
			t.Errorf("%s: %v", path, methods)
		}
		if !is(i["timeoutInMillis"], 900_000) || !is(x.Resources[name+"Function"].has("Timeout"), seconds) {
			t.Errorf("%s ends after %v ms", path, i["timeoutInMillis"])
		}
	}
	if !is(api.has("EndpointConfiguration.Types"), []any{"REGIONAL"}) {
		t.Errorf("the API's streams may be silent only shortly: %v", api.has("EndpointConfiguration"))
	}
	if stage := x.Resources[name+"ApiliveStage"]; stage.Condition != "OnRestApi" || stage.has("StageName") != "live" {
		t.Errorf("the stage is %+v", stage)
	}

	// What is put behind the output begins with a slash, and so would the end of a function's URL.
	host := map[string]any{"Fn::Select": []any{2, map[string]any{"Fn::Split": []any{"/", getAtt(name+"Url", "FunctionUrl")}}}}
	output, _ := x.Outputs[name+"Url"].Value.(map[string]any)
	branches, _ := output["Fn::If"].([]any)
	if len(branches) != 3 || !is(branches[2], map[string]any{"Fn::Sub": []any{"https://${Host}", map[string]any{"Host": host}}}) {
		t.Errorf("the output of the address is %v", branches)
	}

	url := x.Resources[name+"Url"]
	if url.Type != "AWS::Lambda::Url" || url.has("InvokeMode") != "RESPONSE_STREAM" || url.Condition != "OnFunctionUrl" {
		t.Errorf("the function URL is %+v", url)
	}
	for permission, condition := range map[string]string{
		"ApiPermission": "OnRestApi", "UrlPermission": "OnFunctionUrl", "UrlInvocation": "OnFunctionUrl",
	} {
		p := x.Resources[name+permission]
		if p.Type != "AWS::Lambda::Permission" || p.Condition != condition || !is(p.has("FunctionName"), ref(name+"Function")) {
			t.Errorf("%s is %+v", name+permission, p)
		}
	}
}

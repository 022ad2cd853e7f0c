package infra_test

import (
	"strings"
	"testing"
)

// cfn-lint accepts a misspelt mode, and responses would then be buffered.
func TestOperateStreams(t *testing.T) {
	x := load(t)
	api := x.Resources["OperateApi"]
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
			!strings.Contains(uri, "/2021-11-15/functions/${OperateFunction.Arn}/response-streaming-invocations") {
			t.Errorf("%s: %v", path, methods)
		}
		if !is(i["timeoutInMillis"], 900_000) || !is(x.Resources["OperateFunction"].has("Timeout"), 300) {
			t.Errorf("%s ends after %v ms", path, i["timeoutInMillis"])
		}
	}
	if !is(api.has("EndpointConfiguration.Types"), []any{"REGIONAL"}) {
		t.Errorf("the API's streams may be silent only shortly: %v", api.has("EndpointConfiguration"))
	}
	if stage := x.Resources["OperateApiliveStage"]; stage.Condition != "OnRestApi" || stage.has("StageName") != "live" {
		t.Errorf("the stage is %+v", stage)
	}

	url := x.Resources["OperateUrl"]
	if url.Type != "AWS::Lambda::Url" || url.has("InvokeMode") != "RESPONSE_STREAM" || url.Condition != "OnFunctionUrl" {
		t.Errorf("the function URL is %+v", url)
	}
	for name, condition := range map[string]string{
		"OperateApiPermission": "OnRestApi", "OperateUrlPermission": "OnFunctionUrl", "OperateUrlInvocation": "OnFunctionUrl",
	} {
		p := x.Resources[name]
		if p.Type != "AWS::Lambda::Permission" || p.Condition != condition || !is(p.has("FunctionName"), ref("OperateFunction")) {
			t.Errorf("%s is %+v", name, p)
		}
	}
	if got := len(x.of("AWS::Lambda::Permission")); got != 4 { // including the webhooks'
		t.Errorf("%d permissions to invoke", got)
	}
}

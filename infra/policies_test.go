package infra_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// statement is one statement of a policy, with the condition under which it applies.
type statement struct {
	owner     string
	If        string // the condition under which it exists
	Effect    string
	Action    any
	Resource  any // or, in an object, everything except this resource
	Condition any
}

func (s statement) actions() []string {
	if one, ok := s.Action.(string); ok {
		return []string{one}
	}
	var out []string
	several, _ := s.Action.([]any)
	for _, a := range several {
		out = append(out, fmt.Sprint(a))
	}
	return out
}

func statements(x template) []statement {
	var out []statement
	collect := func(owner string, document any) {
		object, _ := document.(map[string]any)
		list, _ := object["Statement"].([]any)
		for _, one := range list {
			s, _ := one.(map[string]any)
			var condition string
			if branches, ok := s["Fn::If"].([]any); ok {
				condition, _ = branches[0].(string)
				s, _ = branches[1].(map[string]any)
			}
			effect, _ := s["Effect"].(string)
			resource := s["Resource"]
			if but, ok := s["NotResource"]; ok {
				resource = map[string]any{"Not": but}
			}
			out = append(out, statement{owner, condition, effect, s["Action"], resource, s["Condition"]})
		}
	}
	for name, r := range x.of("AWS::IAM::Role") {
		policies, _ := r.has("Policies").([]any)
		for _, p := range policies {
			object, _ := p.(map[string]any)
			collect(name, object["PolicyDocument"])
		}
	}
	for name, r := range x.of("AWS::IAM::ManagedPolicy") {
		collect(name, r.has("PolicyDocument"))
	}
	return out
}

// A function has exactly the rights that are listed here.
func TestPoliciesAreNarrow(t *testing.T) {
	const deadLetters = `{"Fn::GetAtt":["DeadLetters","Arn"]}`
	named := func(prefix string) string {
		return `{"Fn::Split":[",",{"Fn::Sub":["` + prefix + `${Models}",{"Models":{"Fn::Join":[",` + prefix + `",{"Fn::Split":[",",{"Ref":"LlmModel"}]}]}}]}]}`
	}
	profiles := named("arn:*:bedrock:*:*:inference-profile/")
	models := strings.Join([]string{
		named("arn:*:bedrock:*::foundation-model/"), profiles,
		`{"Fn::Sub":"arn:${AWS::Partition}:bedrock:*::foundation-model/*"} if {"ArnLike":{"bedrock:InferenceProfileArn":` + profiles + `}}`,
	}, " and ")
	const key = `{"Fn::If":["MakesKey",{"Fn::GetAtt":["Key","Arn"]},{"Ref":"KmsKeyArn"}]}`
	const before = ` and {"Ref":"EarlierKmsKeyArns"}` // until all values are sealed under the present key
	const ofSources = ` if {"StringEquals":{"kms:EncryptionContext:table":"webhook_sources"}}`
	const ofSealed = ` if {"StringEquals":{"kms:EncryptionContext:table":["secrets","executions","agent_tasks","webhook_endpoints"]}}`
	const sources, sealed = key + ofSources, key + ofSealed
	either := func(parameters ...string) string {
		var list []string
		for _, p := range parameters {
			list = append(list, `{"Fn::If":["Has`+p+`",{"Ref":"`+p+`"},{"Ref":"AWS::NoValue"}]}`)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	under := func(arn string) string { // the key of a secret opens only that secret
		return `{"Ref":"SecretsKmsKeyArn"} if {"StringEquals":{"kms:EncryptionContext:SecretARN":` + arn + `}}`
	}
	modelKeys := either("AnthropicApiKeySecretArn", "OpenAiApiKeySecretArn")
	signIn := either("AdminTokenSecretArn", "JwtSecretSecretArn")
	want := map[string]string{ // owner and action: resource
		"HeartbeatRole lambda:InvokeFunction": `[{"Fn::Sub":"arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-heartbeat"},` +
			`{"Fn::Sub":"arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-operate"}]`,
		"HeartbeatRole logs:CreateLogStream":     `{"Fn::GetAtt":["HeartbeatLog","Arn"]}`,
		"HeartbeatRole logs:PutLogEvents":        `{"Fn::GetAtt":["HeartbeatLog","Arn"]}`,
		"OperateRole logs:CreateLogStream":       `{"Fn::GetAtt":["OperateLog","Arn"]}`,
		"OperateRole logs:PutLogEvents":          `{"Fn::GetAtt":["OperateLog","Arn"]}`,
		"ChatRole logs:CreateLogStream":          `{"Fn::GetAtt":["ChatLog","Arn"]}`,
		"ChatRole logs:PutLogEvents":             `{"Fn::GetAtt":["ChatLog","Arn"]}`,
		"ChatRole lambda:InvokeFunction":         `{"Fn::GetAtt":["OperateFunction","Arn"]}`,
		"ChatRole secretsmanager:GetSecretValue": signIn,
		"ChatRole kms:Decrypt":                   under(signIn),
		"WebhookRole logs:CreateLogStream":       `{"Fn::GetAtt":["WebhookLog","Arn"]}`,
		"WebhookRole logs:PutLogEvents":          `{"Fn::GetAtt":["WebhookLog","Arn"]}`,
		"WebhookRole lambda:InvokeFunction":      `{"Fn::GetAtt":["OperateFunction","Arn"]}`,
		"WebhookRole kms:Decrypt":                sources + before + ofSources,
		"CoordinatorRole logs:CreateLogStream":   `{"Fn::GetAtt":["CoordinatorLog","Arn"]}`,
		"CoordinatorRole logs:PutLogEvents":      `{"Fn::GetAtt":["CoordinatorLog","Arn"]}`,
		"CoordinatorRole lambda:InvokeFunction": `[{"Fn::Sub":"arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-coordinator"},` +
			`{"Fn::GetAtt":["OperateFunction","Arn"]},{"Fn::GetAtt":["WorkerFunction","Arn"]}]`,
		"WorkerRole lambda:InvokeFunction": `[{"Fn::Sub":"arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-worker"},` +
			`{"Fn::Sub":"arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-operate"}]`,
		"WorkerRole logs:CreateLogStream":                    `{"Fn::GetAtt":["WorkerLog","Arn"]}`,
		"WorkerRole logs:PutLogEvents":                       `{"Fn::GetAtt":["WorkerLog","Arn"]}`,
		"OperateRole lambda:InvokeFunction":                  `{"Fn::GetAtt":["WorkerFunction","Arn"]}`,
		"CoordinatorRole secretsmanager:GetSecretValue":      signIn,
		"CoordinatorRole kms:Decrypt":                        under(signIn) + " and " + sealed + before + ofSealed,
		"CoordinatorRole kms:Encrypt":                        sealed,
		"CoordinatorRole ses:SendEmail":                      `"*" if {"StringEquals":{"ses:FromAddress":{"Ref":"EmailFrom"}}}`,
		"CoordinatorRole sns:Publish":                        `{"Not":{"Fn::Sub":"arn:${AWS::Partition}:sns:*:*:*"}}`,
		"CoordinatorFunctionCycleRole lambda:InvokeFunction": `{"Fn::GetAtt":["CoordinatorFunction","Arn"]}`,
		"CoordinatorFunctionCycleRole sqs:SendMessage":       deadLetters,
		"MigrateRole logs:CreateLogStream":                   `{"Fn::GetAtt":["MigrateLog","Arn"]}`,
		"MigrateRole logs:PutLogEvents":                      `{"Fn::GetAtt":["MigrateLog","Arn"]}`,
		"FunctionPolicy sqs:SendMessage":                     deadLetters,
		"FunctionPolicy secretsmanager:GetSecretValue":       `{"Ref":"DatabaseSecretArn"}`,
		"FunctionPolicy kms:Decrypt":                         under(`{"Ref":"DatabaseSecretArn"}`),
		"AgentPolicy secretsmanager:GetSecretValue":          modelKeys,
		"OperateRole secretsmanager:GetSecretValue":          signIn,
		"OperateRole kms:Decrypt":                            under(signIn),
		"FunctionPolicy xray:PutTraceSegments":               `"*"`,
		"FunctionPolicy xray:PutTelemetryRecords":            `"*"`,
		"AgentPolicy bedrock:InvokeModel":                    models,
		"AgentPolicy bedrock:InvokeModelWithResponseStream":  models,
		"OperateRole kms:Encrypt":                            sources,
		"OperateRole ses:SendEmail":                          `"*" if {"StringEquals":{"ses:FromAddress":{"Ref":"EmailFrom"}}}`,
		"OperateRole sns:Publish":                            `{"Not":{"Fn::Sub":"arn:${AWS::Partition}:sns:*:*:*"}}`, // no topic
		"StartPolicy secretsmanager:GetSecretValue":          `{"Ref":"GatewayTokenSecretArn"}`,
		"StartPolicy kms:Decrypt":                            under(`{"Ref":"GatewayTokenSecretArn"}`),
		"StartPolicy lambda:InvokeFunction":                  `{"Ref":"AgentFunctionArns"}`,
		"SpansPolicy secretsmanager:GetSecretValue":          `{"Ref":"OtlpHeadersSecretArn"}`,
		"SpansPolicy kms:Decrypt":                            under(`{"Ref":"OtlpHeadersSecretArn"}`),
		"AgentPolicy kms:Encrypt":                            sealed,
		"AgentPolicy kms:Decrypt":                            under(modelKeys) + " and " + sealed + before + ofSealed,
		"AgentPolicy lambda:InvokeFunction":                  `{"Ref":"SkillFunctionArns"}`,
		"HeartbeatFunctionBeatRole lambda:InvokeFunction":    `{"Fn::GetAtt":["HeartbeatFunction","Arn"]}`,
		"HeartbeatFunctionBeatRole sqs:SendMessage":          deadLetters,
		"OperateFunctionTendRole lambda:InvokeFunction":      `{"Fn::GetAtt":["OperateFunction","Arn"]}`,
		"OperateFunctionTendRole sqs:SendMessage":            deadLetters,
	}
	got := map[string]string{}
	x := load(t)
	for _, s := range statements(x) {
		if s.Effect != "Allow" {
			t.Errorf("%s: effect %q", s.owner, s.Effect)
		}
		for _, action := range s.actions() {
			on := string(encode(t, s.Resource))
			if s.Condition != nil {
				on += " if " + string(encode(t, s.Condition))
			}
			if before, ok := got[s.owner+" "+action]; ok {
				on = before + " and " + on
			}
			got[s.owner+" "+action] = on
		}
	}
	for _, s := range statements(x) {
		if is(s.Resource, ref("EarlierKmsKeyArns")) && s.If != "HasEarlierKeys" {
			t.Errorf("%s may use earlier keys if %q", s.owner, s.If)
		}
	}
	for k, resource := range got {
		if want[k] != resource {
			t.Errorf("%s is allowed on %s, not on %s", k, resource, want[k])
		}
	}
	for k := range want {
		if _, ok := got[k]; !ok {
			t.Errorf("%s is not allowed", k)
		}
	}
	for name, f := range x.of("AWS::Lambda::Function") {
		if vpc := string(encode(t, f.has("VpcConfig"))); !strings.HasPrefix(vpc, `{"Fn::If":["InVpc",`) {
			t.Errorf("%s: the VPC is %s", name, vpc)
		}
	}
	for name, r := range x.of("AWS::IAM::Role") {
		if managed := string(encode(t, r.has("ManagedPolicyArns"))); strings.Count(managed, "arn:") != strings.Count(managed, `"InVpc",{"Fn::Sub":"arn:`) {
			t.Errorf("%s has managed policies outside of a VPC: %s", name, managed)
		}
	}
	spans := map[string]any{"Fn::If": []any{"HasOtlpHeadersSecretArn", ref("SpansPolicy"), ref("AWS::NoValue")}}
	for name, r := range x.of("AWS::IAM::Role") {
		managed, _ := r.has("ManagedPolicyArns").([]any)
		may := slices.ContainsFunc(managed, func(p any) bool { return is(p, spans) })
		f := x.Resources[strings.TrimSuffix(name, "Role")+"Function"]
		if exports := f.has("Environment.Variables.OTEL_EXPORTER_OTLP_HEADERS") != nil; may != exports {
			t.Errorf("%s may read the headers of spans: %t", name, may)
		}
	}
	for _, name := range []string{"HeartbeatFunction", "OperateFunction", "CoordinatorFunction", "WorkerFunction"} {
		if x.Resources[name].has("RecursiveLoop") != "Allow" {
			t.Errorf("Lambda would take the fan-out of %s for a loop and stop it", name)
		}
	}
}

// The right to read a secret, or to use its key, exists only if the secret is given.
func TestSecretsByARNAreWiredWhereTheyAreGiven(t *testing.T) {
	x := load(t)
	given := func(parameter string) map[string]any {
		return map[string]any{"Fn::Not": []any{map[string]any{"Fn::Equals": []any{ref(parameter), ""}}}}
	}
	holds := func(how string, conditions ...string) map[string]any {
		var all []any
		for _, c := range conditions {
			all = append(all, map[string]any{"Condition": c})
		}
		return map[string]any{how: all}
	}
	for name, want := range map[string]map[string]any{
		"HasSecret": given("DatabaseSecretArn"), "HasSecretsKey": given("SecretsKmsKeyArn"),
		"HasSecretUnderKey":           holds("Fn::And", "HasSecret", "HasSecretsKey"),
		"HasAnthropicApiKeySecretArn": given("AnthropicApiKeySecretArn"), "HasOpenAiApiKeySecretArn": given("OpenAiApiKeySecretArn"),
		"HasModelSecret":         holds("Fn::Or", "HasAnthropicApiKeySecretArn", "HasOpenAiApiKeySecretArn"),
		"HasModelSecretUnderKey": holds("Fn::And", "HasModelSecret", "HasSecretsKey"),
		"HasAdminTokenSecretArn": given("AdminTokenSecretArn"), "HasJwtSecretSecretArn": given("JwtSecretSecretArn"),
		"HasGatewayTokenSecretArn": given("GatewayTokenSecretArn"),
		"HasGatewaySecretUnderKey": holds("Fn::And", "HasGatewayTokenSecretArn", "HasSecretsKey"),
		"HasOtlpHeadersSecretArn":  given("OtlpHeadersSecretArn"),
		"HasOtlpSecretUnderKey":    holds("Fn::And", "HasOtlpHeadersSecretArn", "HasSecretsKey"),
		"HasSignInSecret":          holds("Fn::Or", "HasAdminTokenSecretArn", "HasJwtSecretSecretArn"),
		"HasSignInSecretUnderKey":  holds("Fn::And", "HasSignInSecret", "HasSecretsKey"),
	} {
		if !is(x.Conditions[name], want) {
			t.Errorf("%s is %v", name, x.Conditions[name])
		}
	}
	got := map[string][]string{} // statements by condition
	for _, s := range statements(x) {
		if strings.Contains(s.If, "Secret") {
			got[s.If] = append(got[s.If], s.owner+" "+strings.Join(s.actions(), ","))
		}
	}
	for _, owners := range got {
		slices.Sort(owners)
	}
	want := map[string][]string{
		"HasSecret": {"FunctionPolicy secretsmanager:GetSecretValue"}, "HasSecretUnderKey": {"FunctionPolicy kms:Decrypt"},
		"HasModelSecret": {"AgentPolicy secretsmanager:GetSecretValue"}, "HasModelSecretUnderKey": {"AgentPolicy kms:Decrypt"},
		"HasSignInSecret":          {"ChatRole secretsmanager:GetSecretValue", "CoordinatorRole secretsmanager:GetSecretValue", "OperateRole secretsmanager:GetSecretValue"},
		"HasGatewayTokenSecretArn": {"StartPolicy secretsmanager:GetSecretValue"}, "HasGatewaySecretUnderKey": {"StartPolicy kms:Decrypt"},
		"HasOtlpSecretUnderKey":   {"SpansPolicy kms:Decrypt"},
		"HasSignInSecretUnderKey": {"ChatRole kms:Decrypt", "CoordinatorRole kms:Decrypt", "OperateRole kms:Decrypt"},
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("allowed are %v, want %v", got, want)
	}
	for _, secret := range []string{"AdminToken", "JwtSecret", "AnthropicApiKey", "OpenAiApiKey", "GatewayToken", "OtlpHeaders"} {
		rule := []any{map[string]any{"Fn::Equals": []any{ref(secret), ""}}, map[string]any{"Fn::Equals": []any{ref(secret + "SecretArn"), ""}}}
		if !slices.ContainsFunc(x.Rules["OneSource"].Assertions, func(a assertion) bool { return is(a.Assert, map[string]any{"Fn::Or": rule}) }) {
			t.Errorf("%s may be given twice", secret)
		}
	}
}

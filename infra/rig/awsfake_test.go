package rig_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig"
)

func startAWS(t *testing.T) *rig.AWS {
	t.Helper()
	a, err := rig.StartAWS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return a
}

// call makes one request and returns the status, the value of one header, and the body.
func call(t *testing.T, method, url, body string, header ...string) (status int, value, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(header[0], header[1])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(header) > 2 {
		value = resp.Header.Get(header[2])
	}
	return resp.StatusCode, value, string(b)
}

const invokeType = "X-Amz-Invocation-Type"

func TestLambdaInvoke(t *testing.T) {
	a := startAWS(t)
	f := start(t, rig.Config{})
	a.Forward("echo", f)
	path := a.Env()["AWS_ENDPOINT_URL_LAMBDA"] + "/2015-03-31/functions/%s/invocations"
	url := strings.Replace(path, "%s", "echo", 1)

	for _, c := range []struct {
		in           request
		kind         string
		status       int
		failed, text string
	}{
		{request{Op: "echo", Text: "hello"}, "RequestResponse", 200, "", `"Text":"hello"`},
		{request{Op: "error", Text: "no"}, "RequestResponse", 200, "Unhandled", `"errorMessage":"no"`},
		{request{Op: "error", Text: "no"}, "Event", 202, "", ""},
		{request{Op: "echo"}, "DryRun", 204, "", ""},
	} {
		status, failed, text := call(t, "POST", url, string(c.in.json()), invokeType, c.kind, "X-Amz-Function-Error")
		if status != c.status || failed != c.failed || !strings.Contains(text, c.text) {
			t.Errorf("%s of %s answered %d, %q, %q", c.kind, c.in.Op, status, failed, text)
		}
	}
	if err := f.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(f.DeadLetters()); n != 1 {
		t.Errorf("%d dead letters, want that of the event", n)
	}

	arn := "arn:aws:lambda:us-east-1:000000000000:function:worker:live"
	if status, _, _ := call(t, "POST", strings.Replace(path, "%s", arn, 1), `{"k":1}`, invokeType, "Event"); status != 202 {
		t.Errorf("an event that is only recorded answered %d", status)
	}
	if in, err := a.WaitInvoke(t.Context(), "worker"); err != nil || in.Type != "Event" || string(in.Payload) != `{"k":1}` {
		t.Errorf("invoke is %+v, %v", in, err)
	}
	if n := len(a.Invokes()); n != 5 {
		t.Errorf("%d invokes recorded, want 5", n)
	}

	f.Close()
	if status, kind, _ := call(t, "POST", url, "{}", invokeType, "Event", "X-Amzn-ErrorType"); status != 500 || kind != "ServiceException" {
		t.Errorf("a function that is closed answered %d %s", status, kind)
	}
	a.Forward("echo", nil)
	if status, _, text := call(t, "POST", url, "{}", invokeType, ""); status != 200 || text != "null" {
		t.Errorf("an invoke that is only recorded answered %d %q", status, text)
	}
}

func TestSecretsManager(t *testing.T) {
	a := startAWS(t)
	a.SetSecret("db", `{"password":"p"}`)
	url := a.Env()["AWS_ENDPOINT_URL_SECRETS_MANAGER"]
	for _, c := range []struct {
		target, body string
		status       int
		text         string
	}{
		{"secretsmanager.GetSecretValue", `{"SecretId":"db"}`, 200, `"SecretString":"{\"password\":\"p\"}"`},
		{"secretsmanager.GetSecretValue", `{"SecretId":"other"}`, 400, "ResourceNotFoundException"},
		{"secretsmanager.GetSecretValue", `{`, 400, "InvalidRequestException"},
		{"secretsmanager.DeleteSecret", `{"SecretId":"db"}`, 400, "UnknownOperationException"},
	} {
		status, _, text := call(t, "POST", url, c.body, "X-Amz-Target", c.target)
		if status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %s answered %d %s", c.target, c.body, status, text)
		}
	}
}

func TestCloudFormationResponse(t *testing.T) {
	a := startAWS(t)
	if status, _, _ := call(t, "PUT", a.ResponseURL("r1"), `{"Status":"SUCCESS"}`, "Content-Type", ""); status != 200 {
		t.Errorf("PUT answered %d", status)
	}
	if status, _, _ := call(t, "PUT", a.ResponseURL("r2"), `no`, "Content-Type", ""); status != 400 {
		t.Errorf("PUT of a text answered %d", status)
	}
	got := a.CustomResources()
	if len(got) != 1 || got[0].ID != "r1" || string(got[0].Body) != `{"Status":"SUCCESS"}` {
		t.Errorf("answers are %+v", got)
	}
}

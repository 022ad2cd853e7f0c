package infra_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A function is wiring in one file.
func TestFunctionsAreWiring(t *testing.T) {
	for _, name := range functions(t) {
		files, err := filepath.Glob(filepath.Join(root, "functions", name, "*"))
		if err != nil || len(files) != 1 {
			t.Errorf("%s consists of %q, %v", name, files, err)
		}
		code, err := os.ReadFile(filepath.Join(root, "functions", name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(code, []byte("\n")); lines >= 40 || !bytes.Contains(code, []byte("\nfunc run() error {")) {
			t.Errorf("%s has %d lines, or no run() error", name, lines)
		}
	}
}

// Every linked package slows cold starts.
func TestFunctionsLinkNoMore(t *testing.T) {
	for _, name := range functions(t) {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "lambda.norpc,nethttpomithttp2", "./functions/"+name)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for dep := range strings.Lines(string(out)) {
			switch dep = strings.TrimSpace(dep); {
			case strings.Contains(dep, "sqlite"), strings.HasPrefix(dep, "testing"):
				t.Errorf("%s links %s", name, dep)
			case strings.Contains(dep, "pressly/goose") && name != "migrate":
				t.Errorf("%s links the migrations: %s", name, dep)
			}
		}
	}
}

// From a VPC each service of AWS that the functions call takes a way out, and the template says which these are.
func TestServicesOfAWSAreToBeReachedFromTheVPC(t *testing.T) {
	const clients = "github.com/aws/aws-sdk-go-v2/service/"
	called := map[string]string{
		"lambda": "Lambda", "secretsmanager": "Secrets Manager", "kms": "KMS", "bedrockruntime": "Bedrock", "sesv2": "SES", "sns": "SNS",
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "lambda.norpc,nethttpomithttp2", "./functions/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	says := load(t).Parameters["VpcSubnetIds"].Description
	for dep := range strings.Lines(string(out)) {
		client, ours := strings.CutPrefix(strings.TrimSpace(dep), clients)
		if client, _, _ = strings.Cut(client, "/"); !ours || client == "internal" {
			continue
		}
		if called[client] == "" || !strings.Contains(says, called[client]) {
			t.Errorf("the client of %s is linked, and VpcSubnetIds does not name that service: %s", client, says)
		}
	}
}

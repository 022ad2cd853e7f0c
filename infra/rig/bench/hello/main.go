// Hello is the smallest bootstrap there can be: what a cold start costs when a
// function does nothing.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	lambda.Start(func(context.Context) (string, error) { return "hello", nil })
}

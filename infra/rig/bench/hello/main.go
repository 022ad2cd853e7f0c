// Command hello is the smallest possible bootstrap. It shows the cold start of a function that does
// nothing.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	lambda.Start(func(context.Context) (string, error) { return "hello", nil })
}

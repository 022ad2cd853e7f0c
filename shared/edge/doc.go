// Package edge connects AWS Lambda to the surfaces. It decodes Lambda's events for a surface, and it
// converts a surface's errors so that Lambda retries the event or moves it to the dead-letter queue.
// HTTP events become requests of net/http, and responses stream where the sender supports that. Only
// this package and the mains import aws-lambda-go.
//
// Nothing fails before the first invocation. A sandbox reads its configuration when it starts. An
// invalid configuration, an unreadable secret, and a database that is down or outdated are errors of
// each invocation that needs them. The next invocation tries again.
package edge

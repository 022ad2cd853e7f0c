// Package edge stands between AWS and the surfaces: it turns the events of Lambda
// into what a surface takes, and the errors of a surface into what Lambda makes
// retries and dead letters of. HTTP requests become those of net/http, and answers go
// out as they are written where the sender takes streams. It is the only importer of
// aws-lambda-go beside the mains, and the only one of the AWS SDK's Lambda and Secrets
// Manager.
//
// Nothing here fails before the first invocation. A sandbox reads its
// configuration when it starts; what is wrong with it, a secret that can't be read
// and a database that is away or outdated are errors of each invocation that needs
// them, in words, and the next invocation tries again.
package edge

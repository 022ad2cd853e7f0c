// Package rig runs the product's real function binaries as AWS Lambda would,
// on one machine and under the control of a test.
//
// # Functions
//
// [Start] simulates one Lambda function. Every sandbox of it is a real process
// with a Runtime API server of its own on loopback, from which the bootstrap
// fetches invocations as it does on Lambda. What Lambda does to a process, the
// rig does with signals:
//
//	freeze between invocations    SIGSTOP, then SIGCONT ([Config.FreezeBetween])
//	time-out                      SIGKILL at the deadline ([WithTimeout])
//	a host that dies              SIGKILL at any moment ([Invocation.Kill])
//	a host that stalls            SIGSTOP for as long as the test likes ([Invocation.Freeze])
//	retries of an async event     [Function.InvokeAsync], up to a dead letter
//	the same event twice          [WithRequestID]
//
// # Faults and effects
//
// [StartFaults] is the other side of package shared/fault. A bootstrap built
// with the tag "faults" asks it at every named point whether to go on, and
// reports to its [Ledger] every effect it has. The ledger is outside the
// product, so its counts are evidence where the product's own log is not.
//
// Package proxy of this folder stands between a client and a server, Postgres among
// them, and fails as networks do. Package outside is a model and a receiver, package
// network what the product does behind such proxies.
//
// # AWS
//
// [StartAWS] answers the few AWS calls the functions make themselves: Lambda
// Invoke, Secrets Manager GetSecretValue, and a CloudFormation response URL.
//
// Nothing here waits by sleeping: a test waits for a result, a named point, an
// effect or an invoke, each of which is a signal.
package rig

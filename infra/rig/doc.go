// Package rig runs the product's real function binaries like AWS Lambda, on one machine and under
// the control of a test.
//
// # Functions
//
// [Start] simulates one Lambda function. Every sandbox is a real process with its own Runtime API
// server on loopback, from which the bootstrap fetches invocations as on Lambda. The rig uses
// signals to do what Lambda does to a process:
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
// [StartFaults] is the counterpart of package shared/fault. A bootstrap that is built with the tag
// "faults" asks it at every named point whether to continue, and reports every effect to its
// [Ledger]. The ledger is outside the product, so its counts are evidence that does not depend on
// the product's own log.
//
// Package proxy is a TCP proxy between a client and a server, such as Postgres, that simulates
// network failures. Package outside simulates a model and a receiver. Package network tests the
// product behind such proxies.
//
// # AWS
//
// [StartAWS] serves the few AWS calls that the functions make themselves: Lambda Invoke, Secrets
// Manager GetSecretValue, and a CloudFormation response URL.
//
// The rig does not wait by sleeping. A test waits for a result, a named point, an effect or an
// invoke, each of which is signalled.
package rig

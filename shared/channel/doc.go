// Package channel has the ways in which a message leaves for a person: as a signed
// POST ([HTTP]), over Slack ([Slack]), and, on a laptop, into the log ([Log]). E-mail
// and SMS are packages of their own, ses and sns, so that who doesn't send them does
// not link them.
//
// # What an error says
//
// A message is handed to a channel once or more, always under the same key, and what
// the channel answers decides what becomes of it (package outbox):
//
//	nil                 the receiver has accepted it
//	a PermanentError    no further try can send it: it was refused, or can't be sent
//	a DeadError         who it is for is gone (http, 410)
//	an UncertainError   it may have been sent, and nobody can tell
//	any other           it was not sent; try again. [AnswerError] may say when
//
// A receiver over http knows the key, so a try that was cut off is simply repeated.
// Slack, e-mail and SMS promise nothing about keys: there a request that has left and
// brought no answer, or one like 500, is uncertain. These channels say so with a
// method Unkeyed, as the handlers of outbox do, for tries whose process was killed.
//
// Texts of errors have neither secrets nor addresses, nor anything that a receiver
// has said but codes.
//
// What a text may tell a visitor is decided before it comes here.
package channel

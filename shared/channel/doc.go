// Package channel sends messages to people: as a signed POST ([HTTP]), over Slack ([Slack]), and,
// on a laptop, into the log ([Log]). E-mail and SMS are separate packages, ses and sns, so that a
// program that does not use them does not link them.
//
// # Errors
//
// The outbox hands a message to a channel once or more, always with the same key. The channel's
// error decides how the outbox continues (package outbox):
//
//	nil                 the receiver has accepted the message
//	a PermanentError    no retry can send it: it was refused, or can't be sent
//	a DeadError         the recipient is gone (http, 410)
//	an UncertainError   it may have been sent, and this can't be determined
//	any other           it was not sent; retry. [AnswerError] may say when
//
// A receiver over http knows the key, so an interrupted attempt is simply repeated. Slack, e-mail
// and SMS promise nothing about keys. There, a request that left and brought no answer, or an
// answer like 500, is uncertain. These channels declare this with a method Unkeyed, like the
// handlers of outbox. It covers attempts whose process was killed.
//
// Error texts contain neither secrets nor addresses. Of a receiver's answer they contain codes
// only.
//
// The decision which texts a visitor may get is made before this package.
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

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
package channel

// Package resilient makes models of others that sometimes fail: it repeats a call
// that may succeed a little later, turns to another model when one does not answer,
// and leaves one alone for a while that has failed too often.
//
// A [Chain] holds the models, the first choice first; [Chain.For] gives the
// [llm.Model] of one workspace, which is made for one invocation or request and
// costs nothing to make.
//
// # Retries
//
// What is retryable ([llm.ErrorClass.Retryable]) is tried again, three times in all,
// after a wait that doubles, is drawn at random and is never shorter than what the
// provider asked for. A wait that would not leave time for another try is not begun:
// the failure is returned at once. An answer that breaks off after pieces of it were
// streamed is tried again as well, and falls back: before the next try the caller gets
// a delta that says Restart, which voids those pieces.
//
// A try may take as long as the caller's context lets it, if something comes all the
// time: providers are always asked to stream, and 90 s of silence end it. What came by
// then is void and was paid for: the response beside the error says about how much.
//
// # Fallbacks
//
// The next model is asked when one does not answer for a reason that may not be the
// next one's: what is retryable, a key, a bill, an open circuit. Not when the request
// itself was refused, and none that a person has switched off. A model that fell silent
// is not tried again if there is a next.
//
// # Circuits
//
// Each provider's model has a circuit in each workspace, whose state lives in the
// database, so that a cold start knows what the last one learnt. It opens after five
// tries in a row that found the provider unavailable, overloaded or silent, for 30 s,
// and twice as long each time that a probe finds it still so, up to 10 minutes. A
// refused key and an unpaid bill pause it until a person acts ([Store.Reset]) or an
// hour has passed. One call at a time probes.
//
// A circuit is read once by each model of [Chain.For] and again every half minute,
// and written when something changes. The database's clock decides when it is over;
// between two readings ours adds what has passed since. A database that fails is
// logged, and models are asked as if all circuits were closed.
package resilient

// Package resilient combines models that sometimes fail into one model. It retries a call that may
// succeed a little later, falls back to another model, and stops asking a model for a while after
// it failed too often.
//
// A [Chain] holds the models, the preferred one first. [Chain.For] returns the [llm.Model] of one
// workspace. Create one per invocation or request: it costs nothing.
//
// # Retries
//
// Errors that are retryable ([llm.ErrorClass.Retryable]) are retried, with three tries in total.
// The wait before a try doubles each time and has random jitter. It is never shorter than the
// provider asked for. If the wait would leave no time for another try, the failure is returned
// immediately. An answer that is interrupted after some pieces were streamed is also retried, or
// falls back. Before the next try, the caller gets a delta with Restart, which voids those pieces.
//
// A try may take as long as the caller's context allows, as long as data keeps arriving. Keepalives
// count: a model that thinks for long sends nothing else. Providers are always asked to stream, and
// 90 s of silence end a try; an answer of Bedrock that can't be streamed is waited for. The pieces so
// far are then void, but they cost money: the response that comes with the error holds an estimate.
//
// A model that takes no temperature is asked again without one, and from then on without one while
// the chain lasts.
//
// # Fallbacks
//
// The next model is asked if one fails for a reason that need not affect the next: a retryable
// error, a rejected key, an unpaid bill, an open circuit. There is no fallback if the request
// itself was refused, and none to a model that a person has switched off. A model that fell silent
// is not retried if another one is available.
//
// # Circuits
//
// Each model of a provider has a circuit breaker in each workspace. Its state is in the database,
// so that a cold start knows it. A circuit opens after five consecutive tries that found the
// provider unavailable, overloaded or silent. It opens for 30 s, and for twice as long after each
// failed probe, up to 10 minutes. A rejected key or an unpaid bill pauses it until a person acts
// ([Store.Reset]) or an hour has passed. Only one call at a time probes.
//
// Each model of [Chain.For] reads a circuit once and again every half minute. It writes when
// something changes. The database's clock decides when a circuit's time is over. Between two
// readings, the local clock measures the time that has passed. If the database fails, this is
// logged, and models are asked as if all circuits were closed.
package resilient

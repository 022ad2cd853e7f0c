// Package endpoint tells receivers outside of events: outbound webhooks by the scheme of Standard
// Webhooks.
//
// A trigger of the database adds a row to the outbox for each enabled endpoint whose filter an event
// matches, in the transaction of the change. If that is rolled back, nothing is sent. [Deliverer]
// sends the rows, at least once, each always under the same webhook-id. What happened to one task is
// sent in order: a delivery that waits for its next attempt holds up the later ones of its task at
// this endpoint, and nothing else.
//
// # Attempts
//
// An answer of 2xx is a success. Everything else is a failure, redirects too, and is tried again 5
// seconds, 5 minutes, 30 minutes, 2, 5, 10, 14, 20 and 24 hours after the first attempt, or later if
// the receiver's Retry-After says so; the last attempt comes after 24 hours at the latest. Then the
// delivery has failed, and the next one of its task is sent. Each attempt is a row in deliveries, also
// one that was cut off.
//
// # Disabling
//
// An endpoint that answers 410 is disabled at once. An endpoint is also disabled when a delivery has
// failed for good and the endpoint has accepted nothing since the first attempt of that delivery. A
// person enables it again. What was due meanwhile is dead, and can be redelivered one by one.
package endpoint

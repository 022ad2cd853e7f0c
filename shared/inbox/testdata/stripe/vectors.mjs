// Writes vectors.json: requests that Stripe's own package signs, for the verifier's test.
//
//	npm ci && node vectors.mjs > vectors.json
import Stripe from "stripe";

const stripe = new Stripe("sk_test_none");
const vectors = [];
for (const [secret, timestamp, body] of [
  ["whsec_test_secret", 1492774577, '{"id":"evt_1","object":"event","type":"invoice.paid"}'],
  ["whsec_5Z8rUqbTzGkEvn2yRHMgYw", 1700000000, '{\n  "id": "evt_2",\n  "object": "event",\n  "data": {"object": {"amount": 1099}}\n}\n'],
  ["whsec_ünïcode-secret", 1800000000, '{"id":"evt_3","text":"Grüße, 日本, \\u0000 and \\"quotes\\""}'],
  ["whsec_empty_body", 1600000000, ""],
]) {
  const header = stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp });
  vectors.push({ secret, timestamp, body, header });
}
console.log(JSON.stringify(vectors, null, 2));

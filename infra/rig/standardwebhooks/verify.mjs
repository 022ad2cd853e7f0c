// Verifies requests by the package standardwebhooks as it comes from npm. REQUESTS is a JSON array of
// {secret, headers, body, good}; good says whether the signature must be accepted.
import assert from "node:assert/strict";
import { Webhook } from "standardwebhooks";

const requests = JSON.parse(process.env.REQUESTS);
assert.ok(requests.length > 0);
for (const { secret, headers, body, good } of requests) {
  const verify = () => new Webhook(secret).verify(body, headers);
  if (good) assert.deepEqual(verify(), JSON.parse(body));
  else assert.throws(verify);
}
console.log(`${requests.length} requests`);

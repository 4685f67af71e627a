// Checks a request as a relay checks it: the signed hop of one host, over the bytes that it sent.
import assert from 'node:assert/strict';
import { HOP_HEADERS, hopV2Message, sha256Hex, signerFromSeed, verifySignature } from 'poste/protocol';

const relay = signerFromSeed(Buffer.alloc(32, 1));
const host = signerFromSeed(Buffer.alloc(32, 2));
const body = JSON.stringify({ epoch: '0TCC135QTP85RW2TAAD8BTCAJF', through: 12 });
const hop = { method: 'POST', target: '/v2/relay/ack', timestamp: String(Date.now()), bodyHash: sha256Hex(body) };

const headers = {
  [HOP_HEADERS.host]: 'laptop',
  [HOP_HEADERS.key]: host.publicKey,
  [HOP_HEADERS.timestamp]: hop.timestamp,
  [HOP_HEADERS.signature]: host.sign(hopV2Message(hop, relay.publicKey)),
};

const isSigned = (fields) =>
  verifySignature(host.publicKey, hopV2Message(fields, relay.publicKey), headers[HOP_HEADERS.signature]);
assert(isSigned(hop));
assert(!isSigned({ ...hop, bodyHash: sha256Hex(`${body} `) }));
console.log('The hop is signed, and of no other body.');

import { describe, expect, it } from 'vitest';
import { AckRequest, ChallengeRequest, EnrolRequest, PushRequest, parserOf } from '../../../src/protocol/schemas.ts';

const KEY = '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=';
const SIGNATURE = Buffer.alloc(64, 1).toString('base64');
const ENROL = { host: 'mac-mini', pubkey: KEY, owner_fp: '', sig: SIGNATURE };
const ACK = { epoch: '01ARZ3NDEKTSV4RRFFQ69G5FAV', through: 7 };

/** `object` without one member. */
function without(object: object, name: string): object {
  return Object.fromEntries(Object.entries(object).filter(([member]) => member !== name));
}

describe('request bodies: types and lengths', () => {
  const challenge = parserOf(ChallengeRequest);
  const enrol = parserOf(EnrolRequest);
  const push = parserOf(PushRequest);
  const ack = parserOf(AckRequest);

  it.each([
    ['a challenge', challenge, { pubkey: KEY }],
    ['an enrolment', enrol, ENROL],
    ['an enrolment with a proof of any kind', enrol, { ...ENROL, proof: { token: [1] } }],
    ['an enrolment with an owner_fp', enrol, { ...ENROL, owner_fp: 'SHA256:abc+/=@-' }],
    ['a push', push, { items: [{}, null, 'anything'] }],
    ['a push of nothing', push, { items: [] }],
    ['an ack', ack, ACK],
    ['an ack of nothing', ack, { ...ACK, through: 0 }],
    ['the highest ack', ack, { ...ACK, through: Number.MAX_SAFE_INTEGER }],
    ['members nobody knows', ack, { ...ACK, later: { version: 3 } }],
  ] as const)('takes %s, as it is', (_what, parse, body) => {
    expect(parse(body)).toBe(body);
  });

  it.each([
    ['no body', challenge, undefined],
    ['null', challenge, null],
    ['a list', push, []],
    ['a text', push, '{"items":[]}'],
    ['a challenge without a key', challenge, {}],
    ['a challenge for a short key', challenge, { pubkey: KEY.slice(1) }],
    ['a challenge for a long key', challenge, { pubkey: `${KEY}=` }],
    ['a challenge for a number', challenge, { pubkey: 44 }],
    ['an enrolment without a host', enrol, without(ENROL, 'host')],
    ['an enrolment without a key', enrol, without(ENROL, 'pubkey')],
    ['an enrolment without an owner_fp', enrol, without(ENROL, 'owner_fp')],
    ['an enrolment without a signature', enrol, without(ENROL, 'sig')],
    ['an enrolment of a bad host name', enrol, { ...ENROL, host: '-mac' }],
    ['an enrolment of a host name that ends a line', enrol, { ...ENROL, host: 'mac\n' }],
    ['an enrolment of an unsafe owner_fp', enrol, { ...ENROL, owner_fp: '<b>' }],
    ['an enrolment of a long owner_fp', enrol, { ...ENROL, owner_fp: 'a'.repeat(65) }],
    ['an enrolment with a short signature', enrol, { ...ENROL, sig: SIGNATURE.slice(1) }],
    ['a push without items', push, {}],
    ['a push of an object', push, { items: {} }],
    ['an ack without an epoch', ack, without(ACK, 'epoch')],
    ['an ack without a through', ack, without(ACK, 'through')],
    ['an ack of an empty epoch', ack, { ...ACK, epoch: '' }],
    ['an ack of a long epoch', ack, { ...ACK, epoch: 'E'.repeat(65) }],
    ['an ack below zero', ack, { ...ACK, through: -1 }],
    ['an ack of a fraction', ack, { ...ACK, through: 1.5 }],
    ['an ack of an unsafe integer', ack, { ...ACK, through: 2 ** 53 }],
    ['an ack of 1e400', ack, { ...ACK, through: Infinity }],
    ['an ack of a text', ack, { ...ACK, through: '7' }],
    ['an ack lent by __proto__', ack, JSON.parse(`{"__proto__":${JSON.stringify(ACK)}}`)],
  ] as const)('refuses %s', (_why, parse, body) => {
    expect(parse(body)).toBeUndefined();
  });
});

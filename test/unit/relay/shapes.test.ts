/**
 * What is made anew for each item has one hidden class of V8. In Node.js 20 `{ ...object, added }` makes a hidden class
 * for each object, in the old generation: half a microsecond each, and slow access wherever such objects are read. It
 * does so once the code has run a few times.
 */
import { setFlagsFromString } from 'node:v8';
import { runInThisContext } from 'node:vm';
import { expect, test } from 'vitest';
import type { Exchange, Reply } from '../../../src/http/exchange.ts';
import { RequestPipeline } from '../../../src/http/pipeline.ts';
import { systemTimers } from '../../../src/lib/clock.ts';
import { pushOf } from '../../support/commands.ts';
import { enrolled } from '../../support/events.ts';
import { given } from '../../support/given.ts';
import { alice, bob } from '../../support/hosts.ts';

setFlagsFromString('--allow-natives-syntax');
const haveSameShape = runInThisContext('(a, b) => %HaveSameMap(a, b)') as (a: object, b: object) => boolean;

const COUNT = 100;
const ids = Array.from({ length: COUNT }, (_none, at) => `m${at}`);

/** Says whether there are as many as were made, the last two of one shape. */
function areOfOneShape(objects: readonly object[]): boolean {
  const [last, before] = objects.toReversed();
  return objects.length === COUNT && last !== undefined && before !== undefined && haveSameShape(last, before);
}

test('objects of one literal have one shape, others have not', () => {
  const made = [1, 2].map((a) => ({ a, b: 2 }));
  expect(haveSameShape(made[0]!, made[1]!)).toBe(true);
  expect(haveSameShape(made[0]!, { b: 2, a: 1 })).toBe(false);
});

test('the replies of the pipeline', async () => {
  const pipeline = new RequestPipeline({
    routes: [{ method: 'GET', path: '/', bodyBytesMax: 0 }],
    timers: systemTimers,
    randomBytes: (count) => Buffer.alloc(count),
    stopping: 'stopping',
    discardBytesMax: 0,
    accept: () => ({ status: 200, headers: {}, body: '' }),
    failed: () => ({ status: 500, headers: {}, body: '' }),
    unexpected: (error) => {
      throw error;
    },
  });
  const replies: Reply[] = [];
  const exchange: Partial<Exchange> = {
    head: { method: 'GET', target: '/', headers: [['host', 'relay.example']], peerAddress: '127.0.0.1' },
    reply: (reply) => replies.push(reply),
  };
  for (let count = 0; count < COUNT; count++) pipeline.handle(exchange as Exchange);
  await pipeline.drain();
  expect(areOfOneShape(replies)).toBe(true);
});

test('the targets of accepted items', () => {
  const targets = ids.flatMap((itemId) => {
    const [event] = given(enrolled(bob)).when(pushOf(alice, itemId, [[bob, 'x']])).events;
    return event?.type === 'ItemAccepted' ? event.targets : [];
  });
  expect(areOfOneShape(targets)).toBe(true);
});

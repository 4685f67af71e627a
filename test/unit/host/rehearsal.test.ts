/** A daemon rehearses: it sends as it will send, and nothing of it is there afterwards. */
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, expect, test, vi } from 'vitest';
import type { HostContext } from '../../../src/host/base/context.ts';
import type { HandlerParts } from '../../../src/host/api/handlers.ts';
import { OWNER_ID } from '../../../src/host/core/rows.ts';
import { sendMail } from '../../../src/host/mail/send.ts';
import { rehearse, rehearseSoon } from '../../../src/host/rehearsal.ts';
import { HostStore } from '../../../src/host/store/host-store.ts';
import { systemTimers } from '../../../src/lib/clock.ts';
import { accepted, addPeer, contextOf } from '../../support/mail-context.ts';
import { ManualTimers } from '../../support/manual-time.ts';
import { unaskedParts } from '../../support/unasked-parts.ts';

const never = (): Promise<never> => Promise.reject(new Error('not asked'));

function partsOf(context: HostContext): HandlerParts {
  return { ...unaskedParts(never), context, timers: systemTimers, wakeAgent: never };
}

async function pairsOf(store: HostStore): Promise<string[]> {
  const pairs: string[] = [];
  for await (const run of store.pairs())
    pairs.push(...run.map(([key, value]) => `${key.toString('hex')} ${value.toString('hex')}`));
  return pairs;
}

afterEach(() => vi.restoreAllMocks());

test('thirty messages here and to a paired host are written nowhere, and nobody hears of them', async () => {
  const context = await contextOf(['eve']);
  await addPeer(context, 'laptop');
  const before = await pairsOf(context.store);
  context.told.length = 0;
  const transacted = vi.spyOn(HostStore.prototype, 'transact');
  await rehearse(partsOf(context), new AbortController().signal);
  const results = await Promise.all(transacted.mock.results.map(({ value }) => value as Promise<unknown>));
  expect(results).toHaveLength(60);
  for (const result of results) expect(result).toMatchObject({ result: { duplicate: false, recipients: [{}] } });
  expect(await pairsOf(context.store)).toEqual(before);
  expect(context.told).toEqual([]);
});

test('a key that the owner used for a message of its own is none of the rehearsal', async () => {
  const context = await contextOf([]);
  const mail = { to: ['owner'], subject: 's', body: 'b' };
  for (let at = 0; at < 30; at++) {
    accepted(await sendMail(context, OWNER_ID, { ...mail, idempotency_key: String(at) }));
  }
  const transacted = vi.spyOn(HostStore.prototype, 'transact');
  await rehearse(partsOf(context), new AbortController().signal);
  const results = await Promise.all(transacted.mock.results.map(({ value }) => value as Promise<unknown>));
  for (const result of results) expect(result).toMatchObject({ result: { duplicate: false } });
});

test('it begins after a moment, and ends with the daemon', async () => {
  const context = await contextOf([]);
  const transacted = vi.spyOn(HostStore.prototype, 'transact');
  const timers = new ManualTimers();
  const end = rehearseSoon(partsOf(context), timers);
  expect(transacted).not.toHaveBeenCalled();
  timers.pass(1000);
  while (transacted.mock.calls.length === 0) await turn();
  await end();
  const sent = transacted.mock.calls.length;
  expect(sent).toBeLessThan(30);
  const endAtOnce = rehearseSoon(partsOf(context), timers);
  await endAtOnce();
  timers.pass(1000);
  expect(transacted).toHaveBeenCalledTimes(sent);
});

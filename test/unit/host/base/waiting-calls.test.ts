/** The bounds of the calls that wait for mail, and how they end. */
import { expect, test } from 'vitest';
import { WaitingCalls, WAITS_MAX, WAITS_PER_AGENT_MAX } from '../../../../src/host/base/waiting-calls.ts';
import type { AgentId } from '../../../../src/host/core/rows.ts';

const agent = (at: number): AgentId => `agent${at}` as AgentId;

test('so many calls of all agents wait at once, and each that ends makes room for one', () => {
  const waits = new WaitingCalls();
  const calls = Array.from({ length: WAITS_MAX }, (_, at) =>
    waits.begin(agent(Math.floor(at / WAITS_PER_AGENT_MAX)), undefined),
  );
  expect(calls).not.toContain(undefined);
  expect(waits.begin(agent(WAITS_MAX), undefined)).toBeUndefined();
  calls[0]?.end();
  calls[0]?.end();
  expect(waits.begin(agent(WAITS_MAX), undefined)).toBeDefined();
  expect(waits.begin(agent(WAITS_MAX), undefined)).toBeUndefined();
});

test('given a call whose answer is on its way, when the daemon ends, then nobody waits for word of it', async () => {
  const waits = new WaitingCalls();
  let isReleased = false;
  waits.begin(agent(1), 'c')?.answer([7], () => {
    isReleased = true;
  });
  expect(waits.isSettled(agent(1))).toBe(false);
  waits.close();
  await waits.untilSettled(agent(1));
  expect(waits.isWaiting(agent(1))).toBe(false);
  expect(await waits.hasBrought(agent(1), 7)).toBe(false);
  expect(isReleased).toBe(true);
});

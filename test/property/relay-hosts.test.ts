import { expect, onTestFinished, test, vi } from 'vitest';
import { epochFromRandom } from '../../src/protocol/epoch.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { FlakyProxy } from '../support/flaky-proxy.ts';
import { relayForTest } from '../support/http-relay.ts';
import { RelayOffice, pinEachOther } from '../support/relay-offices.ts';
import { SeededRandom } from '../support/seeded-random.ts';

const ROUNDS = 30;
const CHANCES = { lostRequest: 0.15, lostAnswer: 0.15, twice: 0.15 };

interface Sent {
  ref: string;
  from: RelayOffice;
  to: RelayOffice;
}

test.each([1, 2, 3])(
  'seed %i: over a relay that loses and doubles answers, changes its epoch and restarts, with hosts that restart, every message arrives once',
  async (seed) => {
    const random = new SeededRandom(seed);
    const relay = await relayForTest(FIRST_ADAPTER);
    const proxy = await FlakyProxy.open(random, () => relay.port);
    onTestFinished(() => proxy.close());
    const alice = await RelayOffice.open('alice', relay.clock);
    const bob = await RelayOffice.open('bob', relay.clock);
    await pinEachOther(alice, bob);
    for (const side of [alice, bob]) await side.addAgent('one');
    for (const side of [alice, bob]) await side.use(proxy.url);
    proxy.chances = CHANCES;
    const sent: Sent[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const [from, to] = random.chance(0.5) ? [alice, bob] : [bob, alice];
      const { ref } = await from.sendTo(to, 'one', ['one']);
      sent.push({ ref, from, to });
      if (random.chance(0.1)) {
        const epoch = epochFromRandom(random.bytes(16));
        await relay.relay.engine.rotateEpoch({
          type: 'RotateEpoch',
          epoch,
          reason: 'reset',
          nowMs: relay.clock.nowMs(),
        });
      }
      if (random.chance(0.1)) await random.pick([alice, bob]).restart();
      if (random.chance(0.05)) await relay.restart();
      relay.clock.move(random.below(20_000));
      for (const side of [alice, bob]) await side.pass();
      await new Promise((done) => {
        setTimeout(done, random.below(60));
      });
    }
    proxy.chances = { lostRequest: 0, lostAnswer: 0, twice: 0 };
    await vi.waitFor(
      async () => {
        relay.clock.move(60_000);
        for (const side of [alice, bob]) await side.pass();
        for (const side of [alice, bob]) {
          const rows = await side.outbox();
          expect(rows.filter(({ kind, state }) => kind === 'envelope' && state !== 'done')).toEqual([]);
        }
      },
      { timeout: 60_000, interval: 100 },
    );
    for (const side of [alice, bob]) {
      const expected = sent.filter(({ to }) => to === side).map(({ ref }) => ref);
      const mail = (await side.mailOf('one')).filter(({ from }) => !from.startsWith('poste@'));
      expect(mail.map(({ ref }) => ref as string).toSorted()).toEqual(expected.toSorted());
      expect((await side.status()).quarantined).toBe(0);
    }
    expect(sent).toHaveLength(ROUNDS);
  },
  120_000,
);

/** Hosts whose mail goes over a relay while they fail and move: it arrives exactly once, or its sender is alerted. */
import { checkRow } from '../../../src/cli/mail/trace.ts';
import { DAY_MS } from '../../../src/protocol/limits.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { isReceiptSigned } from '../../../src/protocol/receipt-tree.ts';
import { NO_CHANCES } from '../../support/flaky-proxy.ts';
import type { OutboxRowView, TraceRow } from '../../../src/host/contract/outbox.ts';
import type { KilledDaemon } from '../../support/killed-daemon.ts';
import { clockAhead } from '../../support/poste-process.ts';
import { type Cell, tryCells } from '../../support/relay-mail-cells.ts';
import { SeededRandom } from '../../support/seeded-random.ts';
import { share } from '../../support/thorough.ts';

const KILLS = share(5);
interface Identity {
  relay_pubkey: PublicKey;
}

/** Long enough for a push that is answered late, and for one that is tried again. */
const RETENTION_MS = 8000;

const CELLS: Cell[] = [
  {
    what: 'either host is killed',
    happens: async (post) => {
      const random = new SeededRandom(12);
      for (let kill = 0; kill < KILLS; kill++) {
        const written = post.write(2);
        await post.oracle.more(random.below(4));
        random.pick(post.daemons).killAndBegin();
        await written;
      }
    },
  },
  {
    what: 'messages share pushes, and an answer is lost: each receipt is proven alone',
    happens: async (post, expect) => {
      const north = post.daemon('north');
      let pushes = 0;
      post.proxy.cut = (asked) => (asked === 'POST /v2/relay/items' && ++pushes === 1 ? 'answer' : undefined);
      post.proxy.chances = { ...NO_CHANCES, lateAnswer: 1 };
      await Promise.all(Array.from({ length: 8 }, () => post.write(1, [north])));
      await post.settled();
      await north.kill();
      north.beginAgain();
      const { relay_pubkey: relayKey } = (await (await fetch(`${post.proxy.url}/v2/relay/info`)).json()) as Identity;
      const accepted: NonNullable<TraceRow['acceptance']>[] = [];
      for (const { messageId } of post.oracle.accepted.values()) {
        const { rows } = await north.answered((client) => client.call('trace', { message_id: messageId }));
        // What the lost answer was about may be confirmed before it is pushed again: that needs no receipt any more.
        const ofRelay = rows.filter(({ acceptance }) => acceptance !== null);
        expect(ofRelay.map(checkRow).map(({ state }) => state)).toEqual(ofRelay.map(() => 'verified'));
        accepted.push(...ofRelay.flatMap(({ acceptance }) => acceptance ?? []));
      }
      expect(accepted.every((acceptance) => isReceiptSigned(relayKey, acceptance))).toBe(true);
      expect(accepted.some(({ tree }) => tree)).toBe(true);
      expect(pushes).toBeGreaterThan(1);
    },
  },
  {
    what: 'the sender goes on under a new key with mail on its way',
    isThorough: true,
    happens: async (post) => {
      const [north, south] = [post.daemon('north'), post.daemon('south')];
      await post.write(2);
      await south.kill();
      await post.write(2, [north]);
      await rotate(north);
      await post.write(2, [north]);
      south.beginAgain();
      await post.write(1);
      await post.meet();
    },
  },
  {
    what: 'the receiver goes on under a new key with mail on its way',
    happens: async (post) => {
      const [north, south] = [post.daemon('north'), post.daemon('south')];
      await post.write(2);
      await south.kill();
      await post.write(2, [north]);
      south.beginAgain();
      await rotate(south);
      await post.write(2);
      await post.meet();
    },
  },
  {
    what: 'the clock of one is further off than a relay takes, and then right again',
    isThorough: true,
    happens: async (post, expect) => {
      const south = post.daemon('south');
      await post.write(1);
      await restartAt(south, 10 * 60_000);
      await post.write(2);
      const state = async (): Promise<unknown> => (await south.client.call('relay-status', {})).problem?.code;
      await expect.poll(state).toBe('CLOCK_SKEW');
      await restartAt(south, -4 * 60_000);
      await post.write(1);
    },
  },
  {
    what: 'mail expires at the relay',
    isThorough: true,
    options: {
      relay: ['--limits', JSON.stringify({ retention_days: RETENTION_MS / DAY_MS }), '--sweep-seconds', '1'],
    },
    happens: async (post, expect) => {
      const [north, south] = [post.daemon('north'), post.daemon('south')];
      await south.kill();
      await post.write(3, [north]);
      await expect.poll(() => undelivered(north)).toEqual(['expired', 'expired', 'expired']);
      south.beginAgain();
      await post.write(1, [south]);
    },
    alerted: 3,
  },
  {
    what: 'the receiver does not take mail of the sender any more',
    happens: async (post, expect) => {
      const [north, south] = [post.daemon('north'), post.daemon('south')];
      await post.write(1);
      // A receipt that comes after the unpairing goes into quarantine, as everything of a host that is not paired.
      await post.settled();
      await south.answered((client) => client.call('unpair', { host: 'north' }));
      const listed = async (): Promise<unknown> =>
        (await south.client.call('relay-status', {})).enrolment?.senders?.count;
      await expect.poll(listed).toBe(1);
      await post.write(3, [north]);
      const refused = async (): Promise<number> =>
        (await rowsOf(north, 'open')).filter(({ last_error: said }) => said?.includes('not accepted')).length;
      await expect.poll(refused).toBe(3);
      await restartAt(north, 3 * DAY_MS + 60_000);
    },
    alerted: 3,
  },
  {
    what: 'the receiver never comes again',
    isThorough: true,
    happens: async (post, expect) => {
      const [north, south] = [post.daemon('north'), post.daemon('south')];
      await post.write(1);
      await post.outcome(0);
      await south.kill();
      await post.write(2, [north]);
      const accepted = async (): Promise<number> =>
        (await rowsOf(north, 'open')).filter(({ state }) => state === 'relay-accepted').length;
      await expect.poll(accepted).toBe(2);
      await restartAt(north, 15 * DAY_MS + 60_000);
      await expect.poll(() => undelivered(north)).toEqual(['unconfirmed', 'unconfirmed']);
      // What was unconfirmed had not arrived; now it may.
      await post.relay.kill();
      south.beginAgain();
    },
    alerted: 2,
  },
  {
    what: 'one speaks only v1, in which no receipts travel: what it sent arrives, and it is told that it heard nothing',
    isThorough: true,
    options: { v1Only: ['south'] },
    happens: async (post, expect) => {
      const [north, south] = [post.daemon('north'), post.daemon('south')];
      await post.write(2);
      await post.relay.kill();
      await post.write(1);
      await post.relay.beginAgain();
      await post.arrived();
      // What is still on its way to the relay would take the LAN, and be heard.
      await expect.poll(() => waitingReceipts(north)).toBe(0);
      // Its own receipts go when the LAN is there again.
      await post.meet();
      await expect.poll(async () => (await rowsOf(north, 'open')).length).toBe(0);
      await restartAt(south, 3 * DAY_MS + 60_000);
    },
    alerted: 3,
  },
];

async function rotate(daemon: KilledDaemon): Promise<void> {
  await daemon.answered((client) => client.call('rotate-key', {}));
}

async function restartAt(daemon: KilledDaemon, aheadMs: number): Promise<void> {
  await daemon.kill();
  daemon.beginAgain(clockAhead(aheadMs));
  await daemon.ready();
}

async function rowsOf(daemon: KilledDaemon, show: 'open' | 'undelivered'): Promise<OutboxRowView[]> {
  const { rows } = await daemon.answered((client) => client.call('outbox', { show }));
  return rows.filter(({ kind }) => kind === 'envelope');
}

async function waitingReceipts(daemon: KilledDaemon): Promise<number> {
  const { rows } = await daemon.answered((client) => client.call('outbox', { show: 'open', receipts: true }));
  return rows.filter(({ kind, state }) => kind === 'receipt' && state === 'pending').length;
}

/** The ends of rows that no receipt came for. */
async function undelivered(daemon: KilledDaemon): Promise<string[]> {
  const rows = await rowsOf(daemon, 'undelivered');
  return rows.map(({ state }) => state).filter((state) => state !== 'cancelled' && state !== 'pending');
}

tryCells(CELLS);

/**
 * Faults of a relay, of its operator and of the way to it: mail arrives exactly once all the same, and its sender
 * knows.
 */
import { join } from 'node:path';
import { HOST_NAMES } from '../../support/relay-post.ts';
import { type Cell, tryCells } from '../../support/relay-mail-cells.ts';
import { SeededRandom } from '../../support/seeded-random.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { share } from '../../support/thorough.ts';

const KILLS = share(4);

const CELLS: Cell[] = [
  {
    what: 'the relay is killed at random, of three hosts',
    options: { names: HOST_NAMES },
    happens: async (post) => {
      const random = new SeededRandom(11);
      for (let kill = 0; kill < KILLS; kill++) {
        const written = post.write(2);
        await post.oracle.more(random.below(6));
        await post.relay.kill();
        await written;
        await post.relay.beginAgain();
      }
    },
  },
  {
    what: 'the relay is restored from an old backup',
    happens: async (post) => {
      const file = join(await temporaryFolder(), 'backup');
      const south = post.daemon('south');
      await post.write(2);
      await south.kill();
      await post.write(2, [post.daemon('north')]);
      await post.relay.command('backup', file);
      // The backup knows nothing of these; some of what it holds will have been acked.
      await post.write(2, [post.daemon('north')]);
      south.beginAgain();
      await post.write(2);
      await post.relay.kill();
      await post.relay.command('restore', file, '--yes');
      await post.relay.beginAgain();
      await post.write(1);
    },
  },
  {
    what: 'the epoch is rotated while mail waits',
    isThorough: true,
    happens: async (post) => {
      const south = post.daemon('south');
      await post.write(2);
      await south.kill();
      await post.write(2, [post.daemon('north')]);
      await post.relay.command('rotate-epoch');
      await post.write(1, [post.daemon('north')]);
      south.beginAgain();
      await post.write(1);
    },
  },
  {
    what: 'requests and answers are lost, doubled, cut in the middle and late',
    happens: async (post) => {
      post.proxy.chances = { lostRequest: 0.1, lostAnswer: 0.15, twice: 0.2, cutAnswer: 0.15, lateAnswer: 0.2 };
      for (let at = 0; at < 6; at++) {
        await post.write(1);
        post.proxy.cutAll();
      }
    },
  },
  {
    what: 'no push is answered for a while, after the relay acted',
    isThorough: true,
    happens: async (post, expect) => {
      let pushes = 0;
      post.proxy.instead = (method, target) => {
        if (method !== 'POST' || target !== '/v2/relay/items') return undefined;
        pushes++;
        return { status: 502, document: {} };
      };
      await post.write(3);
      await expect.poll(() => pushes).toBeGreaterThanOrEqual(2);
      post.proxy.instead = () => undefined;
    },
  },
  {
    what: 'a queue is full until its host comes',
    isThorough: true,
    options: { relay: ['--limits', JSON.stringify({ max_queue_items: 3 })] },
    happens: async (post, expect) => {
      const [north, south] = [post.daemon('north'), post.daemon('south')];
      await post.write(1);
      await south.kill();
      await post.write(6, [north]);
      const refused = async (): Promise<number> =>
        (await north.client.call('outbox', {})).rows.filter(({ last_error: said }) => said?.includes('quota')).length;
      await expect.poll(refused).toBeGreaterThan(0);
      south.beginAgain();
    },
  },
  {
    what: 'the relay speaks only v1, loses answers and is killed; receipts come when the LAN is there again',
    isThorough: true,
    options: { v1Only: ['north', 'south'] },
    happens: async (post) => {
      post.proxy.chances = { ...post.proxy.chances, lostAnswer: 0.3, twice: 0.3 };
      await post.write(2);
      await post.relay.kill();
      await post.write(1);
      await post.relay.beginAgain();
      await post.calm();
      await post.arrived();
      await post.meet();
    },
  },
];

tryCells(CELLS);

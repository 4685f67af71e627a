/** A daemon moves from one relay to another, is killed on the way, and goes on; days pass by its clock alone. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RelayMoveCancelled, RelayMoveStarted } from '../../src/host/contract/relay-move.ts';
import type { RelayListResult } from '../../src/host/contract/relays.ts';
import { displayFingerprint } from '../../src/protocol/public-key.ts';
import { eventually } from '../support/eventually.ts';
import { KilledDaemon } from '../support/killed-daemon.ts';
import { movableClock, run } from '../support/poste-process.ts';
import { WORLD_TEST_MS } from '../support/relay-world.ts';
import { RELAYS, relayNumbered } from '../support/several-relays.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const DAY_MS = 86_400_000;

test(
  'a move goes on where it was after kill -9, closes the old relay after a quiet day, and is then over',
  async () => {
    const [old, next] = [await relayNumbered(1), await relayNumbered(2)];
    const folder = await temporaryFolder();
    const clockFile = join(folder, 'clock');
    /** The daemon and both relays have the same time. */
    const passUntil = async (ms: number): Promise<void> => {
      for (const { relay } of [old, next]) relay.clock.move(ms);
      await writeFile(clockFile, String(old.relay.clock.nowMs() - Date.now()));
    };
    await passUntil(0);
    const home = join(folder, 'home');
    const environment = movableClock(clockFile);
    expect(await run(['init', '--host', 'alice'], { POSTE_HOME: home, ...environment })).toMatchObject({ code: 0 });
    const daemon = await KilledDaemon.over('alice', home, { environment });
    await daemon.ready();
    const relay = <T>(...args: string[]): Promise<T> => daemon.commandAnswered<T>('relay', ...args);
    const state = async (): Promise<string | undefined> => {
      // A relay holds an empty page back until its clock goes on.
      for (const one of [old, next]) one.relay.timers.pass(30_000);
      return (await daemon.answered((client) => client.call('relay-move-status', {}))).move?.state;
    };
    const reaches = async (wanted: string): Promise<void> =>
      expect(await eventually(state, (found) => found === wanted)).toBe(wanted);

    await relay('set', old.proxy.url);
    const key = displayFingerprint(RELAYS[1].key);
    next.proxy.isAway = 'gone';
    const refused = await run(['relay', 'move', next.proxy.url, '--key', key], { POSTE_HOME: home, ...environment });
    expect(refused).toMatchObject({ code: 75, stderr: expect.stringContaining('cannot be used') });
    next.proxy.isAway = undefined;
    await relay<RelayMoveStarted>('move', next.proxy.url, '--key', key);
    await reaches('leaving');
    expect(await relay<RelayMoveCancelled>('move', 'cancel')).toMatchObject({ kept: true });
    await relay<RelayMoveStarted>('move', next.proxy.url, '--key', key);
    await reaches('leaving');

    await daemon.kill();
    await passUntil(DAY_MS);
    old.proxy.cut = (asked) => (asked === 'POST /v2/relay/senders' ? 'answer' : undefined);
    daemon.beginAgain();
    await reaches('closing');
    await daemon.kill();
    old.proxy.cut = () => undefined;
    daemon.beginAgain();
    await reaches('done');
    const { relays } = await relay<RelayListResult>('list');
    expect(relays.map((one) => [one.relay.url, one.role])).toEqual([[next.proxy.url, 'home']]);
    expect(await daemon.stop()).toMatchObject({ code: 0 });
  },
  WORLD_TEST_MS,
);

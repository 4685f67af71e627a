/**
 * A crash before every write of a checkpoint, of an archive and of the pruning: the folders are copied before the
 * write, as a crash there would leave them, and each copy must serve what was accepted, verify, and go on where it was
 * left.
 */
import { cp, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { DAY_MS } from '../../src/protocol/limits.ts';
import type { LogBatch } from '../../src/relay/store/durable-log.ts';
import { verified } from '../support/audits.ts';
import { pushOf } from '../support/commands.ts';
import { alice, bob } from '../support/hosts.ts';
import { archived, keepLog } from '../support/log-keeping.ts';
import { expectReplayed } from '../support/replay.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { share } from '../support/thorough.ts';
import { TestClock } from '../support/test-clock.ts';
import { type TestRelay, openTestRelay } from '../support/test-relay.ts';

/** The pushes of the day that is pruned under crashes: more than one slice of the pruning. */
const PUSHES = 1_400;
const FEW_PUSHES = 200;

interface Crash {
  folder: string;
  before: string;
}

function kindOf({ node, pruned, entries }: LogBatch): string {
  if (pruned) return 'pruning';
  if (entries.length > 0) return 'checkpoint event';
  const [write] = node?.checkpoints ?? [];
  if (write?.type === 'drop part') return 'leftovers';
  return write?.type === 'drop mark' ? 'checkpoint dropped' : 'checkpoint part';
}

/** Copies both folders before every write. */
function crashing(relay: TestRelay, root: string, crashes: Crash[]): () => void {
  const { store } = relay;
  const append = store.append.bind(store);
  store.append = async (batch) => {
    const folder = join(await temporaryFolder(), 'crash');
    await cp(root, folder, { recursive: true });
    crashes.push({ folder, before: kindOf(batch) });
    await append(batch);
  };
  return () => void (store.append = append);
}

/** The first of each kind, and a share of the others. */
function triedOf(crashes: readonly Crash[]): Crash[] {
  const firsts = new Set([...seen(crashes)].map((kind) => crashes.find(({ before }) => before === kind)));
  const others = crashes.filter((crash) => !firsts.has(crash));
  const step = others.length / share(others.length);
  return crashes.filter((crash) => firsts.has(crash) || Math.floor(others.indexOf(crash) % step) === 0);
}

function seen(crashes: readonly Crash[]): Set<string> {
  return new Set(crashes.map(({ before }) => before));
}

async function aDayOfMail(relay: TestRelay, pushes: number): Promise<void> {
  for (let id = 0; id < pushes; id += 100) {
    const day = relay.clock.nowMs;
    await relay.push(...Array.from({ length: 100 }, (_no, at) => pushOf(alice, `${day}-${id + at}`, [[bob, 'x']])));
    await relay.ack(bob, relay.engine.head(bob.key).headSeq);
  }
  relay.clock.move(DAY_MS);
}

test('a crash at any write of a pruned log loses nothing and leaves no gap', async () => {
  const root = await temporaryFolder();
  const [folder, archives] = [join(root, 'store'), join(root, 'archives')];
  await mkdir(archives);
  const relay = await openTestRelay({ folder, hosts: [alice, bob] });
  for (const pushes of [FEW_PUSHES, PUSHES]) {
    await aDayOfMail(relay, pushes);
    expect(await keepLog(relay, { archiveFolder: archives })).toMatchObject({ failures: [] });
  }
  await aDayOfMail(relay, FEW_PUSHES);
  await relay.pushOne(pushOf(alice, 'last', [[bob, 'last']]));
  await relay.engine.heartbeat(relay.clock.nowMs);
  const crashes: Crash[] = [];
  const restore = crashing(relay, root, crashes);
  const whole = await keepLog(relay, { archiveFolder: archives });
  restore();
  expect(whole.failures).toEqual([]);
  const { firstLsn } = relay.store;
  await relay.close();
  expect([...seen(crashes)]).toEqual([
    'checkpoint part',
    'checkpoint event',
    'checkpoint dropped',
    'leftovers',
    'pruning',
  ]);
  // More than one slice.
  expect(crashes.filter(({ before }) => before === 'pruning').length).toBeGreaterThan(1);
  for (const { folder: copy } of triedOf(crashes)) {
    const again = await openTestRelay({ folder: join(copy, 'store'), clock: new TestClock(relay.clock.nowMs) });
    expect(again.notices).toEqual([]);
    expect(await again.wires(bob)).toEqual(['last']);
    const places = { archiveFolder: join(copy, 'archives') };
    expect((await keepLog(again, places)).failures).toEqual([]);
    expect(again.store.firstLsn).toBe(firstLsn);
    const before = await archived(places.archiveFolder);
    await expectReplayed(again.store, before);
    await again.close();
    expect((await verified(again.folder)).findings).toEqual([]);
    const names = await readdir(places.archiveFolder);
    expect(names.filter((name) => !name.endsWith('.archive'))).toEqual([]);
  }
}, 240_000);

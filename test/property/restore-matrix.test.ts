/**
 * Restores under every combination of: how old the backup is, what the clock says, how the relay is started again, and
 * what was being pushed when the store was lost. Hosts then do what hosts do in a new epoch, and an oracle that saw
 * both histories says whether anything was lost, any sequence number was given twice, or anybody was let in again.
 */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import { type Sha256Hex, sha256Hex } from '../../src/protocol/encodings.ts';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import type { Epoch } from '../../src/protocol/names.ts';
import { denyOf, enrolOf, inviteOf, pushOf, revokeOf, rotateOf, sendersOf } from '../support/commands.ts';
import { type TestHost, alice, bob, carol, hostNamed } from '../support/hosts.ts';
import { storedAndReplayed } from '../support/replay.ts';
import { anyEpoch, backUp, restored } from '../support/restores.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestClock } from '../support/test-clock.ts';
import { TestRelay } from '../support/test-relay.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** The time for which the relay went on after its backup. */
const AGES_MS = {
  'of this moment': 0,
  'of 9 minutes': 9 * MINUTE_MS,
  'of 3 hours': 3 * HOUR_MS,
  'of 20 days': 20 * DAY_MS,
};
/** The clock of the restore is off by this. */
const CLOCKS_MS = {
  right: 0,
  'a second back': -1000,
  '30 days back': -30 * DAY_MS,
  'an hour ahead': HOUR_MS,
  '30 days ahead': 30 * DAY_MS,
};
/** The relay serves again so much later by its clock: its heartbeat is fresh, stale, or ahead. */
const STARTS_MS = { fresh: 1000, stale: 11 * MINUTE_MS, ahead: -5 * MINUTE_MS };
/** The fate of the last push before the store was lost. */
const IN_FLIGHT = ['none', 'answered at the second try', 'committed and not answered', 'never arrived'] as const;

const old = hostNamed('old');
const young = hostNamed('young');
const denied = hostNamed('denied');
const late = hostNamed('late');
const USED_INVITE = sha256Hex('used invite');

/** A host beside its relay, as far as mail goes: it keeps what it sent, and what it got by id. */
class Oracle {
  /** Everything that a sender has to bring to a host, by the key that the host has in the end. */
  readonly outbox: { from: TestHost; itemId: string; wire: string; target: TestHost }[] = [];
  readonly inboxes = new Map<string, Map<string, string>>();
  /** The item to which a sequence number of a queue was given. */
  readonly #given = new Map<string, string>();
  readonly faults: string[] = [];

  sees(target: TestHost, seq: number, itemId: string): void {
    const mark = `${target.name} ${seq}`;
    const before = this.#given.get(mark) ?? itemId;
    if (before !== itemId) this.faults.push(`seq ${mark} was given to ${before} and to ${itemId}`);
    this.#given.set(mark, itemId);
  }

  copy(): Oracle {
    const oracle = new Oracle();
    oracle.outbox.push(...this.outbox);
    for (const [name, inbox] of this.inboxes) oracle.inboxes.set(name, new Map(inbox));
    for (const [mark, itemId] of this.#given) oracle.#given.set(mark, itemId);
    return oracle;
  }
}

interface History {
  folder: string;
  file: string;
  oracle: Oracle;
  clockMs: number;
  epochs: Set<Epoch>;
}

async function push(relay: TestRelay, oracle: Oracle, from: TestHost, itemId: string, to: TestHost): Promise<string> {
  const wire = wireOf(from, itemId);
  const { verdict, seqs } = await relay.pushOne(pushOf(from, itemId, [[to, wire]]));
  for (const seq of seqs) oracle.sees(to, seq, itemId);
  return verdict;
}

function sends(oracle: Oracle, from: TestHost, itemId: string, target: TestHost): void {
  oracle.outbox.push({ from, itemId, target, wire: wireOf(from, itemId) });
}

function wireOf(from: TestHost, itemId: string): string {
  return `from ${from.name}: ${itemId}`;
}

/** Pulls everything, as a host in a new epoch does, and acks up to `share` of it. */
async function pull(relay: TestRelay, oracle: Oracle, host: TestHost, share = 1): Promise<void> {
  const inbox = oracle.inboxes.get(host.name) ?? new Map<string, string>();
  oracle.inboxes.set(host.name, inbox);
  const rows = await relay.queue(host);
  const wires = await relay.engine.payloads(rows);
  for (const [at, { seq, itemId, kind }] of rows.entries()) {
    oracle.sees(host, seq, itemId);
    const wire = wires[at]?.toString() ?? 'no bytes';
    const before = inbox.get(itemId) ?? wire;
    if (before !== wire && kind !== 'expired') oracle.faults.push(`${itemId} came with other bytes`);
    inbox.set(itemId, wire);
  }
  const through = rows[Math.ceil(rows.length * share) - 1]?.seq;
  if (through !== undefined) await relay.ack(host, through);
}

async function lived(ageMs: number, inFlight: (typeof IN_FLIGHT)[number], folder: string): Promise<History> {
  const clock = new TestClock();
  const relay = new TestRelay(join(folder, 'store'), { clock, newEpoch: anyEpoch, admission: 'invite' });
  const oracle = new Oracle();
  await relay.open();
  const send = async (from: TestHost, itemId: string, to: TestHost, target = to): Promise<void> => {
    sends(oracle, from, itemId, target);
    await push(relay, oracle, from, itemId, to);
  };
  const invite = (inviteHash: Sha256Hex) =>
    relay.engine.admissions.issueInvite(
      inviteOf(inviteHash, { nowMs: clock.nowMs, expiresAtMs: clock.nowMs + 90 * DAY_MS }),
    );
  for (const host of [alice, bob, carol, old, denied]) {
    await invite(sha256Hex(host.name));
    await relay.enrol(enrolOf(host, { inviteHash: sha256Hex(host.name) }));
  }
  await invite(USED_INVITE);
  for (const id of ['a1', 'a2', 'a3', 'a4']) await send(alice, id, bob);
  for (const id of ['o1', 'o2']) await send(bob, id, old, young);
  await pull(relay, oracle, bob, 0.25);
  const file = join(folder, 'backup');
  await backUp(relay, file);
  const epochs = new Set([relay.engine.epoch]);
  if (ageMs > 0) {
    clock.move(ageMs / 2);
    await pull(relay, oracle, bob, 0.5);
    for (const id of ['a5', 'a6', 'a7']) await send(alice, id, bob);
    await relay.engine.admissions.revokeHost(revokeOf(carol, { nowMs: clock.nowMs }));
    await relay.rotate(rotateOf(old, young, { iatMs: clock.nowMs }));
    await send(bob, 'o3', young);
    await relay.deny(denyOf({ hostFp: hostFingerprint(denied.key) }));
    await relay.enrol(enrolOf(late, { inviteHash: USED_INVITE }));
    await send(late, 'l1', bob);
    await send(alice, 'l2', late);
    await relay.publishSenders(sendersOf(young, [bob], { iatMs: clock.nowMs }));
    await pull(relay, oracle, bob, 0.5);
    clock.move(ageMs / 2);
  }
  if (inFlight !== 'none') {
    sends(oracle, alice, 'f1', bob);
    if (inFlight !== 'never arrived') await push(relay, oracle, alice, 'f1', bob);
    if (inFlight === 'answered at the second try') await push(relay, oracle, alice, 'f1', bob);
  }
  await relay.close();
  return { folder: relay.folder, file, oracle, clockMs: clock.nowMs, epochs };
}

/** Returns what is wrong after a restore of `history` in one cell. */
async function faultsOf(history: History, ageMs: number, clockMs: number, startMs: number): Promise<string[]> {
  const { folder, remove } = await disposableFolder();
  const oracle = history.oracle.copy();
  const { faults } = oracle;
  const clock = new TestClock(history.clockMs + clockMs);
  const relay = new TestRelay(folder, { clock, newEpoch: anyEpoch, admission: 'open' });
  try {
    await cp(history.folder, folder, { recursive: true });
    const report = await restored(history.file, folder, clock.nowMs);
    if (history.epochs.has(report.epoch)) faults.push('the epoch is not new');
    clock.move(startMs);
    await relay.open();
    // A heartbeat in doubt begins another epoch; the restore itself is none.
    const isDoubted = startMs !== STARTS_MS.fresh;
    if ((relay.engine.epoch === report.epoch) === isDoubted) faults.push(`notices: ${relay.notices.join(' ')}`);
    if (ageMs > 0) await authority(relay, faults);
    await mail(relay, oracle, ageMs);
    const [stored, replayed] = await storedAndReplayed(relay.store);
    if (!isDeepStrictEqual(stored, replayed)) faults.push('the rows are not those of the log');
    return faults;
  } finally {
    await relay.close();
    await remove();
  }
}

/** Nobody who was kept out is in. */
async function authority(relay: TestRelay, faults: string[]): Promise<void> {
  for (const host of [carol, old, denied]) {
    if (relay.engine.directory.get(host.key)?.revokedAtMs === null) faults.push(`${host.name} is live`);
    const outcome = await relay.enrol(enrolOf(host));
    if (outcome.type === 'Enrolled') faults.push(`${host.name} could enrol`);
  }
  if (relay.engine.directory.get(late.key)) faults.push('a host that enrolled after the backup is in by itself');
  if (!relay.engine.directory.get(young.key)) faults.push('the new key of a host that the backup knows is not in');
  if ((await relay.engine.admissions.openInvites(0)).length > 0) faults.push('an invite that was used is open');
  const { verdict } = await relay.pushOne(pushOf(alice, 'unwanted', [[young, 'x']]));
  if (verdict !== 'rejected:sender not accepted by target') faults.push(`a sender that is not listed got ${verdict}`);
}

/** Hosts enrol, rotate and push again, and pull from the beginning: everything arrives. */
async function mail(relay: TestRelay, oracle: Oracle, ageMs: number): Promise<void> {
  const { faults } = oracle;
  await relay.enrol(enrolOf(late));
  if (ageMs > 0) {
    const again = await relay.rotate(rotateOf(old, young, { iatMs: relay.clock.nowMs }));
    if (again.type === 'Refusal') faults.push(`the rotation again: ${again.code}`);
  }
  const receivers = ageMs > 0 ? [bob, young, late] : [bob, old];
  for (const host of receivers) await pull(relay, oracle, host, 0.5);
  const sent = oracle.outbox.map(({ target, ...mail }) => ({
    ...mail,
    to: ageMs > 0 || target !== young ? target : old,
  }));
  const pushed = sent.map(async ({ from, itemId, wire, to }) => {
    const { verdict, seqs } = await relay.pushOne(pushOf(from, itemId, [[to, wire]]));
    if (verdict !== 'accepted' && verdict !== 'duplicate') faults.push(`${itemId} again: ${verdict}`);
    // A duplicate answers what it was given under the key of its time.
    if (verdict === 'accepted') for (const seq of seqs) oracle.sees(to, seq, itemId);
  });
  await Promise.all(pushed);
  for (const host of receivers) await pull(relay, oracle, host);
  for (const { itemId, wire, to } of sent) {
    const got = oracle.inboxes.get(to.name)?.get(itemId);
    if (got !== wire) faults.push(`${itemId} for ${to.name} is ${got ?? 'lost'}`);
  }
  for (const host of receivers) if ((await relay.queue(host)).length > 0) faults.push(`${host.name} cannot ack`);
}

const HISTORIES = Object.entries(AGES_MS).flatMap(([age, ageMs]) =>
  IN_FLIGHT.map((inFlight) => ({ age, ageMs, inFlight })),
);
const CELLS = Object.entries(CLOCKS_MS).flatMap(([clock, clockMs]) =>
  Object.entries(STARTS_MS).map(([start, startMs]) => ({ clock, clockMs, start, startMs })),
);

test(`there are ${HISTORIES.length * CELLS.length} cells`, () => {
  expect(HISTORIES.length * CELLS.length).toBeGreaterThanOrEqual(100);
});

/** Every sixth cell, of each history others; all of them where all is tried. */
function triedCells(history: number): typeof CELLS {
  return IS_THOROUGH ? CELLS : CELLS.filter((_cell, at) => (at + history) % 6 === 0);
}

test.each(HISTORIES)('a backup $age, last push $inFlight: nothing is lost and nobody is let in', async (history) => {
  const { folder, remove } = await disposableFolder();
  try {
    const world = await lived(history.ageMs, history.inFlight, folder);
    const cells = triedCells(HISTORIES.indexOf(history)).map(async ({ clock, clockMs, start, startMs }) => {
      const faults = await faultsOf(world, history.ageMs, clockMs, startMs);
      return faults.map((fault) => `clock ${clock}, start ${start}: ${fault}`);
    });
    expect((await Promise.all(cells)).flat()).toEqual([]);
  } finally {
    await remove();
  }
});

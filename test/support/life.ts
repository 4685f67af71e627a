/**
 * A life of a relay in which everything that has an event happens, for tests that look at stores afterwards. Fixed
 * keys, times and texts: the same life leaves the same log.
 */
import { DAY_MS, DEFAULT_LIMITS, dedupHorizonMs, retentionMs } from '../../src/protocol/limits.ts';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import type { Engine } from '../../src/relay/engine/engine.ts';
import {
  accountEnrolOf,
  denyOf,
  encKeyOf,
  enrolOf,
  hostSeenOf,
  inviteOf,
  pushOf,
  reportLostOf,
  revokeOf,
  rotateEpochOf,
  rotateOf,
  sendersOf,
  type To,
} from './commands.ts';
import { epochNumbered } from './epochs.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from './hosts.ts';
import type { TestClock } from './test-clock.ts';

/** The host as which carol goes on. */
export const carolAfter = hostNamed('carol-after');
export const erin = hostNamed('erin');

/** Ends with mail for bob and, under her new key, carol. */
export async function liveALife(engine: Engine, clock: TestClock): Promise<void> {
  const push = (from: TestHost, id: string, ...to: To[]) =>
    engine.pushes.push([pushOf(from, id, to, { nowMs: clock.nowMs })], (outcomes) => Promise.resolve(outcomes));
  const ack = async (host: TestHost, through: number) => {
    await engine.durable();
    return engine.acks.ack({
      type: 'AckItems',
      targetPubkey: host.key,
      epoch: engine.epoch,
      through,
      nowMs: clock.nowMs,
    });
  };
  const now = () => ({ nowMs: clock.nowMs });
  for (const host of [alice, bob, carol]) await engine.admissions.enrol(enrolOf(host, now()));
  await engine.admissions.enrol(accountEnrolOf(dave, 'acme', now()));
  await engine.noteHostSeen(hostSeenOf(alice, clock.nowMs));
  await engine.publishSenders(sendersOf(bob, [alice, carol], { iatMs: clock.nowMs, ...now() }));
  await engine.publishEncKey(encKeyOf(bob, Buffer.alloc(32, 7).toString('base64'), now()));
  const invite = sha256Hex('invite');
  await engine.admissions.issueInvite(
    inviteOf(invite, { label: 'for erin', expiresAtMs: clock.nowMs + DAY_MS, ...now() }),
  );
  await engine.admissions.enrol(enrolOf(erin, { inviteHash: invite, ...now() }));
  clock.move(1_000);
  for (const id of ['m1', 'm2', 'm3']) await push(alice, id, [bob, `${id} for bob`]);
  await push(bob, 'both', [carol, 'both for carol'], [dave, 'both for dave']);
  await push(alice, 'c1', [carol, 'c1 for carol']);
  await ack(bob, engine.head(bob.key).headSeq - 2);
  clock.move(1_000);
  await engine.admissions.rotateKey(rotateOf(carol, carolAfter, { iatMs: clock.nowMs, ...now() }));
  await engine.durable();
  await engine.lost.report(
    reportLostOf(bob, engine.head(bob.key).headSeq, { freshEpoch: epochNumbered(50), ...now() }),
  );
  await engine.admissions.denyHosts(denyOf({ account: 'acme', reason: 'gone', ...now() }));
  await engine.admissions.revokeHost(revokeOf(erin, now()));
  clock.move(retentionMs(DEFAULT_LIMITS) + 1);
  await engine.admissions.lapse(clock.nowMs);
  await sweep(engine, clock);
  await push(alice, 'late', [bob, 'late for bob'], [carolAfter, 'late for carol']);
  clock.move(dedupHorizonMs(DEFAULT_LIMITS) + 1);
  await sweep(engine, clock);
  await engine.rotateEpoch(rotateEpochOf(epochNumbered(60), now()));
  clock.move(1_000);
  await push(alice, 'last', [bob, 'last for bob'], [carolAfter, 'last for carol']);
  await engine.heartbeat(clock.nowMs);
  await engine.durable();
}

async function sweep(engine: Engine, clock: TestClock): Promise<void> {
  const now = () => clock.nowMs;
  await engine.expiry.expire(now, new AbortController().signal);
  await engine.expiry.purgeDedup(now, new AbortController().signal);
}

/** Little of everything that stays: enrolments, a list, mail that waits, was acked, was moved. */
export async function liveBriefly(engine: Engine, clock: TestClock): Promise<void> {
  const now = () => ({ nowMs: clock.nowMs });
  const push = (ids: string[], ...to: To[]) => {
    const items = ids.map((id) => pushOf(alice, id, to, now()));
    return engine.pushes.push(items, (outcomes) => Promise.resolve(outcomes));
  };
  await engine.admissions.enrol(enrolOf(bob, now()));
  await engine.admissions.enrol(accountEnrolOf(carol, 'acme', now()));
  await engine.publishSenders(sendersOf(bob, [alice], { iatMs: clock.nowMs, ...now() }));
  await push(['m1'], [bob, 'm1 for bob']);
  await push(['m2', 'm3'], [bob, 'mail for bob'], [carol, 'mail for carol']);
  await engine.durable();
  const { epoch } = engine;
  await engine.acks.ack({ type: 'AckItems', targetPubkey: bob.key, epoch, through: clock.nowMs, ...now() });
  await engine.admissions.rotateKey(rotateOf(carol, carolAfter, { iatMs: clock.nowMs, ...now() }));
  await engine.heartbeat(clock.nowMs);
  await engine.durable();
}

/**
 * kill -9 of either of two paired daemons while mail flows both ways, with an oracle outside the processes.
 *
 * Agents of both hosts send, reply, read and ack, and ask again under the same idempotency key when an answer was lost.
 * Whatever is killed when: what was accepted is in every recipient's mailbox exactly once, and its sender is told so.
 */
import { readdir } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { Correspondent } from './correspondent.ts';
import { KilledDaemon } from '../support/killed-daemon.ts';
import { MailOracle } from '../support/mail-oracle.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const KILLS = Number(process.env['POSTE_TEST_KILLS'] ?? (IS_THOROUGH ? 25 : 3));
/** As many as it takes until something is lost, in the end. */
const KILLS_MAX = 80;
const SEED = Number(process.env['POSTE_TEST_SEED'] ?? 2211);
/** Messages that are accepted between two kills: few enough that daemons are killed while they catch up. */
const ACCEPTED_BETWEEN_MAX = 30;
const COMMAND_EVERY = 6;
/** Until everything is where it belongs, once nobody is killed any more. */
const SETTLED_MS = 60_000;
const READ_AT_ONCE = 20;
const DELIVERED: ReadonlySet<string> = new Set(['delivered', 'notified', 'read', 'acked']);

test(`${KILLS} kills of paired daemons: what was accepted is delivered just once, and its sender knows`, async () => {
  console.log(`seed ${SEED}`);
  const random = new SeededRandom(SEED);
  const oracle = new MailOracle();
  const [north, south] = await Promise.all([KilledDaemon.begin('north'), KilledDaemon.begin('south')]);
  const hosts = [north, south];
  await pair(north, south);
  const agents = await Promise.all(
    hosts.flatMap((daemon) => ['one', 'two'].map((name) => added(name, daemon, oracle, random))),
  );

  const load = { isOver: false };
  const flow = Promise.all(agents.map((agent) => agent.run(load, agents)));
  const kills = async (): Promise<void> => {
    const hasFound = (): boolean => oracle.repeated > 0 && north.lost + south.lost > 0;
    // A few kills may lose nothing: then there are more of them, so that there is something to find.
    for (let kill = 1; kill <= KILLS || (!hasFound() && kill <= KILLS_MAX); kill++) {
      // Otherwise one may be killed that has not begun yet, or both.
      if (random.chance(0.6)) await Promise.all(hosts.map((host) => host.ready()));
      await oracle.more(1 + random.below(ACCEPTED_BETWEEN_MAX));
      random.pick(hosts).killAndBegin();
      const [from, to] = [random.pick(agents), random.pick(agents)];
      if (kill % COMMAND_EVERY === 0) await from.sendByCommand(to);
    }
    await Promise.all(hosts.map((host) => host.ready()));
    await oracle.more(agents.length * 4);
    load.isOver = true;
  };
  await Promise.all([flow, kills()]);

  await expect.poll(() => openRows(hosts), { interval: 100, timeout: SETTLED_MS }).toBe(0);
  for (const agent of agents) {
    await expectMailbox(agent, oracle);
    await expectSent(agent, oracle);
  }
  for (const host of hosts) {
    expect(await host.answered((client) => client.call('quarantine', {}))).toMatchObject({ total_items: 0 });
    expect((await host.stop()).code).toBe(0);
    expect(host.log).not.toContain('"level":50');
    expect((await readdir(host.folder)).toSorted()).toEqual(['config.toml', 'store']);
  }
  // The test has had something to find.
  expect(oracle.accepted.size).toBeGreaterThan(KILLS * 5);
  expect(oracle.repeated).toBeGreaterThan(0);
  expect(north.lost + south.lost).toBeGreaterThan(0);
}, 300_000);

async function pair(inviting: KilledDaemon, accepting: KilledDaemon): Promise<void> {
  const { fingerprint } = await accepting.answered((client) => client.call('status', {}));
  const { code } = await inviting.answered((client) => client.call('pair-invite', { fingerprint }));
  const address = inviting.lanAddress;
  await accepting.answered((client) => client.call('pair-accept', { code, address }));
}

async function added(name: string, daemon: KilledDaemon, oracle: MailOracle, random: SeededRandom) {
  const agent = new Correspondent({ name, daemon, oracle, random: new SeededRandom(random.below(1e9)) });
  await daemon.answered((client) => client.call('add-agent', { name }));
  return agent;
}

/** Returns how much of envelopes and receipts is still on its way. */
async function openRows(hosts: readonly KilledDaemon[]): Promise<number> {
  const pages = await Promise.all(
    hosts.map((host) => host.answered((client) => client.call('outbox', { limit: 200 }))),
  );
  return pages.reduce((count, { rows }) => count + rows.length, 0);
}

/** Everything that was accepted for the agent, as it was written, once. */
async function expectMailbox(agent: Correspondent, oracle: MailOracle): Promise<void> {
  const mailbox = await agent.mailbox();
  expect(mailbox.map(({ subject }) => subject).toSorted()).toEqual(oracle.to(agent.address).toSorted());
  for (let at = 0; at < mailbox.length; at += READ_AT_ONCE) {
    const message_ids = mailbox.slice(at, at + READ_AT_ONCE).map(({ message_id }) => message_id);
    const { messages = [] } = await agent.inbox({ action: 'read', message_ids, peek: true, max_bytes: 1 << 20 });
    for (const { subject, message_id: messageId, from, body } of messages) {
      expect({ messageId, from, body }).toEqual(pick(oracle, subject));
    }
  }
}

function pick(oracle: MailOracle, subject: string): object | undefined {
  const accepted = oracle.accepted.get(subject);
  return accepted && { messageId: accepted.messageId, from: accepted.from, body: accepted.body };
}

/** Everything that the agent was told is accepted, delivered to everybody whom it named then. */
async function expectSent(agent: Correspondent, oracle: MailOracle): Promise<void> {
  const sent = await agent.sent();
  expect(sent.map(({ subject }) => subject).toSorted()).toEqual(oracle.from(agent.address).toSorted());
  for (const { subject, recipients } of sent) {
    const named = oracle.accepted.get(subject)?.recipients ?? [];
    expect(recipients.map(({ recipient }) => recipient).toSorted()).toEqual([...named].toSorted());
    expect(recipients.filter(({ state }) => !DELIVERED.has(state))).toEqual([]);
  }
}

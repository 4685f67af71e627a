/**
 * Checks what must be true when a run of torture is over: each message that was accepted is in the mailbox of everybody
 * whom it went to exactly once, or its sender was alerted; and nothing was called delivered when it was not.
 */
import { LAN_CONFIRM_MS, RELAY_GRACE_MS } from '../../src/host/core/outbox.ts';
import type { Address, AgentId, OutboxRow } from '../../src/host/core/rows.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { AGENTS, type Host } from '../support/torture-host.ts';
import { type Asked, RETENTION_DAYS, type TortureWorld } from '../support/torture-world.ts';

/**
 * Turns of four minutes until everything that can arrive has arrived, and how many in which nothing moves show that.
 */
const TURNS_MAX = 200;
const QUIET_TURNS = 6;
const DELIVERED: ReadonlySet<string> = new Set(['delivered', 'notified', 'read', 'acked']);

interface Mail {
  subject: string;
  from: string;
  /** The message that the host's own report is about. */
  replyTo: string | null;
}

/**
 * Returns what is wrong, a sentence each; nothing when all is well. The world is healed, and time goes by until nothing
 * moves.
 */
export async function faultsAfter(world: TortureWorld): Promise<string[]> {
  await world.heal();
  const faults: string[] = [];
  const isQuiet = await isQuietIn(world);
  if (!isQuiet && world.excuses.size === 0) faults.push('mail is on its way for ever');
  const waiting = (await openRows(world)).filter(isUnsettled);
  if (waiting.length > 0) {
    if (world.excuses.size === 0) faults.push(...waiting.map((row) => `${row.itemId} is ${row.state} for ever`));
    await world.later(RETENTION_DAYS * DAY_MS + RELAY_GRACE_MS + LAN_CONFIRM_MS);
    for (let turn = 0; turn < TURNS_MAX && (await openRows(world)).some(isUnsettled); turn++) await world.later();
    const left = (await openRows(world)).filter(isUnsettled);
    faults.push(...left.map((row) => `${row.itemId} is ${row.state}, and its sender was not told`));
  }
  for (const host of world.hosts) {
    const { quarantined } = await host.context.status();
    if (quarantined > 0) faults.push(`${quarantined} in quarantine at ${host.context.name}`);
    for (const { level, message } of host.context.said) if (level === 'error') faults.push(`said: ${message}`);
  }
  const boxes = new Map<Host, Record<string, Mail[]>>();
  for (const host of world.hosts) boxes.set(host, await mailboxesOf(host));
  for (const asked of world.asked) faults.push(...(await faultsOf(world, asked, boxes)));
  return faults;
}

/** Neither delivered nor alerted about, and still tried. */
function isUnsettled({ kind, nextAtMs, alertedAtMs }: OutboxRow): boolean {
  return kind === 'envelope' && nextAtMs !== null && alertedAtMs === null;
}

async function openRows(world: TortureWorld): Promise<OutboxRow[]> {
  const rows = await Promise.all(world.hosts.map(({ context }) => context.outbox()));
  return rows.flat();
}

/** Says whether it came to that nothing moves any more: no row waits to be sent, and the relay holds nothing. */
async function isQuietIn(world: TortureWorld): Promise<boolean> {
  for (let turn = 0, quiet = 0; turn < TURNS_MAX; turn++) {
    await world.later();
    const rows = await openRows(world);
    const moves = rows.some(({ state, alertedAtMs }) => state === 'pending' && alertedAtMs === null);
    if (!rows.some(isUnsettled) && !moves) return true;
    quiet = moves || (await isAnythingQueued(world)) ? 0 : quiet + 1;
    if (quiet >= QUIET_TURNS) return true;
  }
  return false;
}

async function isAnythingQueued(world: TortureWorld): Promise<boolean> {
  for (const { context } of world.hosts) {
    const { rows } = await world.relay.relay.engine.page(context.key, 0, 1);
    if (rows.length > 0) return true;
  }
  return false;
}

async function mailboxesOf({ context }: Host): Promise<Record<string, Mail[]>> {
  const boxes: Record<string, Mail[]> = {};
  for (const name of AGENTS) {
    boxes[name] = await context.store.read(async (reader) => {
      const mail: Mail[] = [];
      for await (const { row } of reader.range('entry', [`agent-${name}` as AgentId])) {
        const message = reader.get('message', row.ref);
        if (message) mail.push({ subject: message.subject, from: message.from, replyTo: message.replyTo });
      }
      return mail;
    });
  }
  return boxes;
}

async function faultsOf(
  world: TortureWorld,
  { subject, from, to, names, isAccepted }: Asked,
  boxes: ReadonlyMap<Host, Record<string, Mail[]>>,
): Promise<string[]> {
  const faults: string[] = [];
  const sent = await sentAs(from, subject);
  if (!sent && isAccepted) return [`${subject} was accepted and is not there any more`];
  const alerts = Object.values(boxes.get(from) ?? {})
    .flat()
    .filter(({ from: voice, replyTo }) => voice.startsWith('poste@') && replyTo === sent?.ref);
  for (const name of AGENTS) {
    const times = (boxes.get(to)?.[name] ?? []).filter((mail) => mail.subject === subject).length;
    const address = `${name}@${to.context.name}` as Address;
    const isMeant = names.includes(name) && sent !== undefined;
    const what = `${subject} of ${from.context.name} to ${address}`;
    if (times > (isMeant ? 1 : 0)) faults.push(`${what} arrived ${times} times`);
    if (!isMeant) continue;
    const state = sent.states.get(address) ?? '';
    if (times === 0 && alerts.length === 0) faults.push(`${what} was lost in silence (${state})`);
    if (times === 0 && DELIVERED.has(state)) faults.push(`${what} did not arrive and is said to be ${state}`);
    if (times === 1 && !DELIVERED.has(state) && alerts.length === 0) {
      faults.push(`${what} arrived and its sender knows nothing of it (${state})`);
    }
  }
  if (alerts.length > 0 && world.excuses.size === 0) {
    faults.push(
      `${subject} of ${from.context.name}: alerted for nothing: ${alerts.map((mail) => mail.subject).join()}`,
    );
  }
  return faults;
}

async function sentAs(
  { context }: Host,
  subject: string,
): Promise<{ ref: string; states: ReadonlyMap<Address, string> } | undefined> {
  return context.store.read(async (reader) => {
    for await (const { row } of reader.range('sent', [])) {
      if (reader.get('message', row.ref)?.subject !== subject) continue;
      return { ref: row.ref, states: new Map(row.recipients.map(({ address, state }) => [address, state])) };
    }
    return undefined;
  });
}

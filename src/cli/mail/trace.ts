/** `poste trace`: everything this host knows about one message: outbox, relay and its proof, receiver and receipts. */
import type { Command } from 'commander';
import type { TraceResult, TraceRow } from '../../host/contract/outbox.ts';
import { countText } from '../../host/core/spans.ts';
import { ID_END_CHARACTERS_MIN } from '../../host/core/short-ids.ts';
import { printable } from '../../protocol/printable.ts';
import { displayFingerprint, parsePublicKey } from '../../protocol/public-key.ts';
import { timeMsOf } from '../../protocol/time.ts';
import type { ItemAccepted } from '../../relay/core/event.ts';
import { checkProofs, NotVerified, signedWithOthers, type VerifiedCheck } from '../../relay/replay/proof-check.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, mailboxCommand } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatFields } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { MESSAGE_NAMES, messagesMeant } from './message-names.ts';
import { withoutUndefined } from '../lib/values.ts';

const TRACE_NOTES = `
For a message that this host sent, shows each row of the outbox, the receipt of the relay that accepted it, the relay's
proof that it is in the log (verified as poste relay log check-proof does), and what each recipient confirmed. For a
message that this host received, shows the sender, the transport, the mailboxes and the receipts that were sent. If the
relay cannot be reached, the rest is shown. If a proof does not verify, the command ends with 1.

Each time is in UTC, by the clock of the host on which the step happened: clocks may differ.

Examples:
  $ poste trace 06EXAMPLE0000000000000000
  $ poste trace 06EXAMPLE0000000000000000 --json`;

export function traceCommand(context: CommandContext): Command {
  return mailboxCommand(context, 'trace', 'the agent in whose mailbox the message has this number')
    .argument('<message-id>', `${MESSAGE_NAMES}; also its id at its sender`)
    .notes(TRACE_NOTES)
    .action(async (named, { as, ...flags }) => {
      // Only in a mailbox are such digits a number; elsewhere they end an id.
      const isId = as === undefined && named.length >= ID_END_CHARACTERS_MIN;
      const acting = { ...flags, ...withoutUndefined({ as }) };
      const messageId = isId ? named : (await messagesMeant(context, [named] as const, acting))[0];
      const trace = await ask(context, 'trace', { message_id: messageId }, flags);
      const checked = trace.rows.map(checkRow);
      const rows = trace.rows.map((row, at) => ({ ...row, checked: checked[at] }));
      print(context, flags, { ...trace, rows }, () => traceText(trace, checked));
      refuseUnproven(checked);
    });
}

function refuseUnproven(checked: readonly CheckedRow[]): void {
  const reasons = checked.flatMap((one) => (one.state === 'failed' ? [one.reason] : []));
  if (reasons.length === 0) return;
  const rows = `${countText(reasons.length, 'row')} ${reasons.length === 1 ? 'is' : 'are'}`;
  const advice = 'keep what poste trace --json prints, and ask the operator of the relay';
  throw new CommandFailed('failure', 'NOT_VERIFIED', `${rows} not proven: ${reasons.join('; ')}; ${advice}`, {
    reasons,
  });
}

/** The worth of a relay's proof for one row of the outbox. */
type CheckedRow =
  | { state: 'verified'; verified: VerifiedCheck[] }
  /** The relay's receipt and its log disagree, or it denies what it signed. `reason` is a clause. */
  | { state: 'failed'; reason: string }
  /** No relay accepted it, or no proof is available now. */
  | { state: 'none'; reason: string };

/**
 * Checks that the proof is about this row: its item, its bytes, this host and the target. The proof itself is verified
 * as in `poste relay log check-proof`, against the key that signed the receipt, which is the pinned one.
 */
export function checkRow(row: TraceRow): CheckedRow {
  const { acceptance, proof } = row;
  if (!acceptance) return { state: 'none', reason: 'no relay has accepted it' };
  if (acceptance.fault !== null) return failed(`the ${acceptance.fault} of the relay's receipt is wrong`);
  if (!proof || proof.state === 'none') return { state: 'none', reason: proof?.reason ?? 'no relay was asked' };
  if (proof.state === 'denied')
    return failed(`the relay signed that it accepted the item, and now denies it: ${proof.reason}`);
  const { relay_pubkey: relayKey, accept } = acceptance;
  const proofs = [proof.document];
  try {
    const { verified, items } = checkProofs({ proofs, relayKey });
    const [item] = items;
    const fault = item ? faultOf(item, row) : 'the proof is about no item';
    if (!item || fault !== undefined) return failed(fault ?? '');
    // A push that is repeated after a key rotation gets a receipt that names another key than the record.
    const isSame =
      item.senderPubkey === accept.sender_pubkey &&
      item.targets.some(({ hostPubkey }) => hostPubkey === accept.targets[0]?.host_pubkey);
    if (!isSame) return { state: 'verified', verified };
    return { state: 'verified', verified: checkProofs({ proofs, relayKey, accept: acceptance }).verified };
  } catch (error) {
    if (error instanceof NotVerified) return failed(error.message);
    throw error;
  }
}

function failed(reason: string): CheckedRow {
  return { state: 'failed', reason };
}

function faultOf(item: ItemAccepted, row: TraceRow): string | undefined {
  if (item.itemId !== row.item_id) return 'the record is about another item';
  if (!row.own_keys.includes(item.senderPubkey)) return 'the record names a sender that is not this host';
  const target = item.targets.find(({ hostPubkey }) => row.host_keys.includes(hostPubkey));
  if (!target) return `the record names no key of ${row.host}`;
  if (target.wireHash !== row.wire_hash) return 'the record has other bytes than this host sent';
  return target.seq === row.acceptance?.seq ? undefined : 'the record and the receipt have different seqs';
}

/** Tells the way of the message, in the order in which this host learned of it. */
export function traceText(trace: TraceResult, checked: readonly CheckedRow[]): string {
  return [
    headText(trace),
    ...(trace.arrival ? [arrivalText(trace.arrival)] : []),
    ...trace.mailboxes.map(mailboxText),
    ...trace.recipients.map(recipientText),
    ...trace.rows.map((row, at) => rowText(row, checked[at], confirmedAt(row, trace))),
  ].join('\n');
}

function headText(trace: TraceResult): string {
  const { message_id: id, sender_id: senderId, stored_at: storedAt } = trace;
  return lines(`Message ${id}`, [
    senderId !== id && ['called', `${senderId} by its sender`],
    ['kind', trace.kind],
    ['from', trace.from],
    ['to', trace.to.join(', ')],
    ['subject', trace.subject],
    ['written', trace.created_at],
    ['stored', `${storedAt} on this host`],
  ]);
}

function arrivalText(arrival: NonNullable<TraceResult['arrival']>): string {
  const { host, via, relay, item_id: itemId, fingerprint, at, wire_hash: wireHash, receipts } = arrival;
  const way = via === null ? 'not known' : via === 'lan' ? 'over the LAN' : relayWay(relay);
  return lines(`Came from ${host}`, [
    ['signed by', fingerprint],
    ['way', way],
    ['item', itemId],
    ['bytes', `SHA-256 ${wireHash}`],
    ['stored', at],
    ...receipts.map((receipt) => ['receipt', receiptText(receipt)]),
  ]);
}

function relayWay(relay: NonNullable<TraceResult['arrival']>['relay']): string {
  if (!relay) return 'over a relay';
  const key = parsePublicKey(relay.pubkey);
  const seq = relay.seq === null ? '' : `, seq ${relay.seq}`;
  return `over the relay ${key ? displayFingerprint(key) : relay.pubkey}${seq} of epoch ${relay.epoch}`;
}

function receiptText({ recipient, state, at, row }: NonNullable<TraceResult['arrival']>['receipts'][number]): string {
  const onItsWay = row && `on its way: ${row.state}${errorText(row.last_error)}`;
  return `${at} ${recipient}: ${state} (${onItsWay ?? 'delivered, or its host is no longer paired'})`;
}

function mailboxText(mailbox: TraceResult['mailboxes'][number]): string {
  const { agent, state, forwarded_from: forwardedFrom } = mailbox;
  const was = forwardedFrom === null ? '' : `, addressed to ${forwardedFrom}`;
  return steps(`In the mailbox of ${agent}: ${state}${was}`, [
    [mailbox.stored_at, 'stored'],
    [mailbox.notified_at, 'the agent was notified'],
    [mailbox.read_at, 'read'],
    [mailbox.acked_at, 'acked'],
  ]);
}

function recipientText({ recipient, state, steps: known }: TraceResult['recipients'][number]): string {
  return steps(
    `Recipient ${recipient}: ${state}`,
    known.map((step) => [step.at, step.state]),
  );
}

/** The time at which the last recipient of the row was known to have it. */
function confirmedAt({ recipients }: TraceRow, trace: TraceResult): string | undefined {
  const own = trace.recipients.filter(({ recipient }) => recipients.includes(recipient));
  const delivered = own.flatMap(({ steps: known }) => known.filter(({ state }) => state === 'delivered'));
  return delivered
    .map(({ at }) => at)
    .toSorted()
    .at(-1);
}

function rowText(row: TraceRow, checked: CheckedRow | undefined, confirmed: string | undefined): string {
  const { acceptance } = row;
  const pushed: Step[] = [
    [row.first_push_at, 'first pushed to a relay'],
    // A receipt follows the push, whatever the relay's clock says.
    [acceptance?.accepted_at ?? null, acceptance ? acceptanceText(acceptance) : ''],
  ];
  const overLan: Step[] = [[row.lan_accepted_at, `${row.host} accepted it over the LAN`]];
  const isLanFirst = timeOrNever(row.lan_accepted_at) < timeOrNever(row.first_push_at);
  const head = steps(`Outbox row ${row.row} to ${row.host}: ${row.state}${errorText(row.last_error)}`, [
    [row.created_at, `queued: ${countText(row.bytes, 'byte')}, SHA-256 ${row.wire_hash}`],
    ...(isLanFirst ? [...overLan, ...pushed] : [...pushed, ...overLan]),
    [row.alerted_at, 'its sender was alerted'],
    [row.next_at, row.state === 'pending' ? 'next attempt' : 'next check'],
  ]);
  const tried = `${countText(row.lan_attempts, 'attempt')} over the LAN, ${row.relay_attempts} at a relay`;
  const facts = [
    row.lan_attempts + row.relay_attempts > 0 && ['failed', tried],
    row.relays !== undefined && ['relays', relaysText(row, row.relays, confirmed)],
    row.confirmed.length > 0 && ['confirmed', `by ${row.confirmed.join(', ')}`],
    ...(acceptance && checked ? proofFields(checked) : []),
  ];
  return `${head}${formatFields(facts, 11)}`;
}

type RelayOfRow = NonNullable<TraceRow['relays']>[number];

const FATES: Readonly<Record<RelayOfRow['state'], string | null>> = {
  live: null,
  again: 'may have lost it',
  expired: 'said expired',
  gone: 'was removed',
};

/** One line: what each relay took, when the other host confirmed it, and what relays said of it besides. */
function relaysText(row: TraceRow, relays: readonly RelayOfRow[], confirmed: string | undefined): string {
  const taken = relays.map((relay, at) => {
    return `by ${nameOf(relay)} ${timeIn(row, relay.accepted_at)}${reasonText(relay, relays.slice(0, at))}`;
  });
  const end = confirmed === undefined ? [] : [`confirmed ${timeIn(row, confirmed)}`];
  const settledMs = row.state === 'done' && confirmed !== undefined ? timeMsOf(confirmed) : Infinity;
  const fates = relays.flatMap((relay) => {
    const fate = FATES[relay.state];
    const at = relay.state === 'expired' ? relay.expired_at : null;
    const when = at === null ? '' : ` ${timeIn(row, at)}${timeMsOf(at) > settledMs ? ': settled before' : ''}`;
    return fate === null ? [] : [`; ${nameOf(relay)} ${fate}${when}`];
  });
  return `accepted ${[...taken, ...end].join(', ')}${fates.join('')}`;
}

const REASONS: Readonly<Record<NonNullable<RelayOfRow['reason']>, string>> = {
  first: 'no other had it',
  second: 'second copy',
  again: 'pushed again',
  ahead: 'ahead of a later message',
  unheard: 'not heard',
};

/** Why it went to this relay too, which those of `before` took; empty where there is nothing to say. */
function reasonText({ reason }: RelayOfRow, before: readonly RelayOfRow[]): string {
  if (reason === null || (reason === 'first' && before.length === 0)) return '';
  if (reason === 'unheard' && before.length === 0) return ' (no other was heard)';
  return ` (${reason === 'unheard' ? `${before.map(nameOf).join(' and ')} ` : ''}${REASONS[reason]})`;
}

function nameOf({ url, fingerprint }: RelayOfRow): string {
  return url === null ? fingerprint : new URL(url).host;
}

/** The time alone on the day on which the row was queued. */
function timeIn({ created_at: from }: TraceRow, at: string): string {
  const [day = '', time = ''] = at.split('T');
  return from.startsWith(day) ? time.slice(0, 8) : `on ${day} ${time.slice(0, 8)}`;
}

function acceptanceText(acceptance: NonNullable<TraceRow['acceptance']>): string {
  const { fingerprint, seq, epoch, fault, tree, may_be_lost: mayBeLost } = acceptance;
  const together = tree ? `, signed ${signedWithOthers(tree)}` : '';
  const worth = fault === null ? `its receipt verifies${together}` : `ITS RECEIPT IS INVALID: the ${fault} is wrong`;
  const lost = mayBeLost ? '; its store was restored since, so this host pushes the item again' : '';
  return `the relay ${fingerprint} accepted it as seq ${seq} of epoch ${epoch}: ${worth}${lost}`;
}

function proofFields(checked: CheckedRow): [name: string, value: string][] {
  if (checked.state === 'verified') return checked.verified.map(({ sentence }) => ['proven', sentence]);
  return [[checked.state === 'failed' ? 'NOT PROVEN' : 'no proof', checked.reason]];
}

function errorText(error: string | null): string {
  return error === null ? '' : `, last error: ${error}`;
}

function lines(title: string, pairs: Parameters<typeof formatFields>[0]): string {
  return `${printable(title)}\n${formatFields(pairs, 11)}`;
}

/** A time that never came is after every other. */
function timeOrNever(time: string | null): number {
  return time === null ? Infinity : timeMsOf(time);
}

type Step = readonly [at: string | null, what: string];

/** The steps that happened, in the order given: their times come from several clocks, so they are not sorted. */
function steps(title: string, all: readonly Step[]): string {
  const lines = all.flatMap(([at, what]) => (at === null ? [] : [`  ${at}  ${printable(what)}\n`]));
  return `${printable(title)}\n${lines.join('')}`;
}

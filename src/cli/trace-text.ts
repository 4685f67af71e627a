/** A traced message as a terminal shows it: what happened, in the order in which it is known to have happened. */
import type { TraceResult, TraceRow } from '../host/documents/trace.ts';
import { displayFingerprint, parsePublicKey } from '../protocol/public-key.ts';
import { printable } from '../protocol/printable.ts';
import type { CheckedRow } from './trace-proof.ts';

export function traceText(trace: TraceResult, checked: readonly CheckedRow[]): string {
  return [
    headText(trace),
    ...(trace.arrival ? [arrivalText(trace.arrival)] : []),
    ...trace.mailboxes.map(mailboxText),
    ...trace.recipients.map(recipientText),
    ...trace.rows.map((row, at) => rowText(row, checked[at])),
  ].join('\n');
}

function headText(trace: TraceResult): string {
  const {
    message_id: id,
    sender_id: senderId,
    kind,
    from,
    to,
    subject,
    created_at: createdAt,
    stored_at: storedAt,
  } = trace;
  return lines(`Message ${id}`, [
    ...(senderId === id ? [] : [['called', `${senderId} by its sender`] as const]),
    ['kind', kind],
    ['from', from],
    ['to', to.join(', ')],
    ['subject', subject],
    ['written', isoTime(createdAt)],
    ['stored', `${isoTime(storedAt)} on this host`],
  ]);
}

function arrivalText(arrival: NonNullable<TraceResult['arrival']>): string {
  const { host, via, relay, item_id: itemId, fingerprint, at, wire_hash: wireHash, receipts } = arrival;
  const way = via === null ? 'not known' : via === 'lan' ? 'over the LAN' : relayWay(relay);
  const head = lines(`Came from ${host}`, [
    ['signed by', fingerprint],
    ['way', way],
    ['item', itemId],
    ['bytes', `SHA-256 ${wireHash}`],
    ['stored', isoTime(at)],
  ]);
  return `${head}${receipts.map(receiptText).join('')}`;
}

function relayWay(relay: NonNullable<TraceResult['arrival']>['relay']): string {
  if (!relay) return 'over a relay';
  const key = parsePublicKey(relay.pubkey);
  const seq = relay.seq === null ? '' : `, seq ${relay.seq}`;
  return `over the relay ${key ? displayFingerprint(key) : relay.pubkey}${seq} of epoch ${relay.epoch}`;
}

function receiptText({ recipient, state, at, row }: NonNullable<TraceResult['arrival']>['receipts'][number]): string {
  const way =
    row === null ? 'handed over, or nobody is left to tell' : `on its way: ${row.state}${errorText(row.last_error)}`;
  return pair('receipt', `${isoTime(at)} ${recipient}: ${state} (${way})`);
}

function mailboxText(mailbox: TraceResult['mailboxes'][number]): string {
  const { agent, state, forwarded_from: forwardedFrom } = mailbox;
  const was = forwardedFrom === null ? '' : `, addressed to ${forwardedFrom}`;
  return steps(`In the mailbox of ${agent}: ${state}${was}`, [
    [mailbox.stored_at, 'stored'],
    [mailbox.notified_at, 'the agent was told'],
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

function rowText(row: TraceRow, checked: CheckedRow | undefined): string {
  const { acceptance } = row;
  const head = steps(`Outbox row ${row.row} to ${row.host}: ${row.state}${errorText(row.last_error)}`, [
    [row.created_at, `queued: ${row.bytes} bytes, SHA-256 ${row.wire_hash}`],
    [row.first_push_at, 'first pushed to a relay'],
    [row.lan_accepted_at, `${row.host} took it over the LAN`],
    [acceptance?.accepted_at ?? null, acceptance ? acceptanceText(acceptance) : ''],
    [row.alerted_at, 'its sender was told'],
    [row.next_at, row.state === 'pending' ? 'is tried next' : 'is looked at again'],
  ]);
  const tried =
    row.lan_attempts + row.relay_attempts === 0
      ? ''
      : pair('failed', `${row.lan_attempts} attempts over the LAN, ${row.relay_attempts} at a relay`);
  const confirmed = row.confirmed.length === 0 ? '' : pair('confirmed', `by ${row.confirmed.join(', ')}`);
  return `${head}${tried}${confirmed}${acceptance && checked ? proofText(checked) : ''}`;
}

function acceptanceText({
  fingerprint,
  seq,
  epoch,
  fault,
  may_be_lost: mayBeLost,
}: NonNullable<TraceRow['acceptance']>): string {
  const worth = fault === null ? 'its receipt verifies' : `ITS RECEIPT IS NOT WORTH ANYTHING: the ${fault} is wrong`;
  const lost = mayBeLost ? '; it went back in time since, and is given the item again' : '';
  return `the relay ${fingerprint} took it as seq ${seq} of epoch ${epoch}: ${worth}${lost}`;
}

function proofText(checked: CheckedRow): string {
  switch (checked.state) {
    case 'verified':
      return checked.verified.map(({ sentence }) => pair('proven', sentence)).join('');
    case 'failed':
      return pair('NOT PROVEN', checked.reason);
    case 'none':
      return pair('no proof', checked.reason);
  }
}

function errorText(error: string | null): string {
  return error === null ? '' : `, last error: ${error}`;
}

function lines(title: string, pairs: readonly (readonly [name: string, value: string])[]): string {
  return `${printable(title)}\n${pairs.map(([name, value]) => pair(name, value)).join('')}`;
}

function pair(name: string, value: string): string {
  return `  ${name.padEnd(10)}  ${printable(value)}\n`;
}

/** Those that happened, the earliest first. */
function steps(title: string, all: readonly (readonly [at: number | null, what: string])[]): string {
  const happened = all.flatMap(([at, what]) => (at === null ? [] : [{ at, what }]));
  const sorted = happened.toSorted((a, b) => a.at - b.at);
  return `${printable(title)}\n${sorted.map(({ at, what }) => `  ${isoTime(at)}  ${printable(what)}\n`).join('')}`;
}

/** To the millisecond: clocks of several hosts are compared. */
function isoTime(timeMs: number): string {
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? `${timeMs}` : date.toISOString();
}

/**
 * Paired hosts with which this host shares no relay: where they say that they take mail, and the one message about it
 * to the owner. Nothing here calls an address: the owner alone adds a relay.
 */
import { shellWord } from '../../lib/shell-word.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { RelayOfHost } from '../contract/relays.ts';
import type { HostContext } from '../base/context.ts';
import { relaysOfPeer } from '../core/peer-relays.ts';
import { type OutboxRow, OWNER_ID, type PeerRow } from '../core/rows.ts';
import { type RelayFacts, wayOfMail } from '../core/transport-choice.ts';
import { reportToAgent } from '../mailbox/mailbox.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { relayRowOf } from '../store/own-relays.ts';
import { homeOf, isReported, noteReported } from './homes.ts';

/** Mail waits so long before the owner is told. */
const REPORT_AFTER_MS = 600_000;

/** The relays at which a host takes mail, as it says. */
export interface PeerHomes {
  /** Undefined when it said nothing. Empty: the LAN alone. */
  relays: RelayOfHost[] | undefined;
  /** It takes mail at no relay of this host. One that it left may still have it enrolled. */
  isNoneShared: boolean;
}

export function homesOf(reader: Reader, peer: PeerRow): PeerHomes {
  const isOwn = (key: PublicKey): boolean => relayRowOf(reader, key) !== undefined;
  const relays = homeOf(reader, peer.peerId)?.map(({ relay_pubkey: key, url }) => {
    return { url, fingerprint: displayFingerprint(key), is_shared: isOwn(key) };
  });
  const isListed = relays === undefined || relays.some((relay) => relay.is_shared);
  const isNoneShared = !isListed && (relays.length === 0 || !relaysOfPeer(peer).some(isOwn));
  return { relays, isNoneShared };
}

/** Where the host takes mail, while this host knows no way for mail that is sent now. `facts`: of the relays. */
export function takesMailAt(
  peer: PeerRow,
  { relays, isNoneShared }: PeerHomes,
  facts: RelayFacts | null | 'unknown',
): { takes_mail_at?: RelayOfHost[] } {
  return relays && wayOfMail(peer, isNoneShared ? null : facts) === 'none' ? { takes_mail_at: relays } : {};
}

/**
 * Tells the owner, once for each document of the host, when a message that waits for it has had no way for so long.
 * Returns the row, which is due no later than that.
 */
export function reportNoCommonRelay(tx: Transaction, context: HostContext, row: OutboxRow, peer: PeerRow): OutboxRow {
  const { peerId } = peer;
  if (row.kind !== 'envelope' || row.state !== 'pending' || isReported(tx, peerId)) return row;
  const { relays = [], isNoneShared } = homesOf(tx, peer);
  if (!isNoneShared || relays.length === 0) return row;
  const leftMs = REPORT_AFTER_MS - (context.nowMs() - context.momentMs(row.createdAtMs));
  if (leftMs > 0) return { ...row, nextAtMs: Math.min(row.nextAtMs ?? Infinity, context.nowMs() + leftMs) };
  noteReported(tx, peerId);
  reportToAgent(tx, context, OWNER_ID, { ...reportText(peer.hostName, relays), kind: 'status' });
  return row;
}

/** The addresses are the other host's words: printable ASCII, as its document was parsed. */
function reportText(host: string, relays: readonly RelayOfHost[]): { subject: string; body: string } {
  const commands = relays.map(
    ({ url, fingerprint }) => `    poste relay add ${shellWord(url)} --key ${fingerprint} --guest\n`,
  );
  return {
    subject: `No common relay with ${host}`,
    body:
      `Mail for ${host} waits: the LAN does not reach it, and this host uses no relay where ${host} takes mail. ` +
      `${host} says that it takes mail at what stands below. These are its words: this host checked nothing of them ` +
      'and called no address. If you know the relay, one command lets this host write there:\n\n' +
      `${commands.join('')}\n` +
      'Its operator sees the addresses, subjects, sizes and times of that mail, and never a body.',
  };
}

/** What the sender of a message that is not delivered is told besides; empty when some relay is shared. */
export function elsewhereSentence(reader: Reader, peer: PeerRow): string {
  const { relays = [], isNoneShared } = homesOf(reader, peer);
  const at = relays.map(({ url, fingerprint }) => `${url} (${fingerprint})`).join(', ');
  return !isNoneShared || at === '' ? '' : `There is no common relay; ${peer.hostName} takes mail at ${at}.`;
}

/** What `poste status` shows at a glance: read from the store, and from what the daemon knows by now. It calls nobody. */
import { type ListenAddress, listenAddressText } from '../../lib/listen-address.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { DaemonFacts } from '../api/handlers.ts';
import { broken } from '../../lib/check.ts';
import type { Check, StatusResult } from '../contract/daemon.ts';
import type { RelayStatusResult } from '../contract/peers.ts';
import type { HostContext } from '../base/context.ts';
import { OWNER_ID } from '../core/rows.ts';
import { wayOfMail } from '../core/transport-choice.ts';
import type { RelayTransport } from '../outbox/carrier.ts';
import { mailChecks } from './mail-checks.ts';
import { lanChecks } from './peer-checks.ts';
import { storedFacts } from './stored-facts.ts';

interface StatusParts {
  context: HostContext;
  facts: DaemonFacts;
  /** The port of the LAN listener; `undefined` while there is none. */
  lan: { readonly port: number | undefined };
  lanListen: ListenAddress;
  relay: { status(): Promise<RelayStatusResult>; readonly carrier: Pick<RelayTransport, 'factsFor'> };
  linesLost: () => number;
}

export async function hostStatus(parts: StatusParts): Promise<StatusResult> {
  const { context, facts, lan, lanListen, relay } = parts;
  const { startedAtMs, ...daemon } = facts;
  const { hostName, signer, sealKey } = context.identity();
  const nowMs = context.nowMs();
  const [link, stored, ownerUnread] = await Promise.all([
    relay.status(),
    context.store.read((reader) => storedFacts(reader, context)),
    context.store.read((reader) => reader.get('mailbox', OWNER_ID)?.unread ?? 0),
  ]);
  const { pending, unconfirmed } = stored.mail.outbox;
  const listener = { listen: listenAddressText(lanListen), port: lan.port ?? null };
  const checks = [...lanChecks(listener, stored.peers.length), ...relayFault(link), ...mailChecks(stored.mail, nowMs)];
  return {
    host: hostName,
    host_pubkey: signer.publicKey,
    fingerprint: displayFingerprint(signer.publicKey),
    enc_pub: sealKey.encPub,
    ...daemon,
    started_at: startedAtMs,
    agents: stored.agents.length,
    owner_unread: ownerUnread,
    listener,
    relay: link.relay && { url: link.relay.url, state: link.state, problem: link.problem?.message ?? null },
    peers: stored.peers.map(({ row, facts: { waiting, oldestAtMs } }) => ({
      host: row.hostName,
      reach: wayOfMail(row, relay.carrier.factsFor(row)),
      address: row.address,
      reached_at: row.reachedAtMs,
      waiting,
      oldest_at: oldestAtMs,
    })),
    outbox: { waiting: pending.count, unconfirmed: unconfirmed.count },
    quarantined: stored.mail.quarantine.items,
    log_lines_lost: parts.linesLost(),
    problems: checks.filter(({ state }) => state === 'broken'),
  };
}

function relayFault({ relay, state, problem }: RelayStatusResult): Check[] {
  if (!relay || (state !== 'failing' && state !== 'key-changed')) return [];
  const why = problem ? `: ${problem.message}` : '';
  const sentence = state === 'failing' ? `the relay does not work${why}` : `the relay shows another key${why}`;
  return [broken({ area: 'relay', id: state === 'failing' ? 'relay-reach' : 'relay-key' }, sentence, 'poste doctor')];
}

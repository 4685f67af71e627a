/**
 * Makes a relay of v1 know this host: its enrolment, which tells the epoch, and the key to seal to. There is no list of
 * senders, and a rotation is known to nobody there: the new key enrols beside the old one.
 */
import type { Epoch } from '../../../protocol/epoch.ts';
import type { PublicKey } from '../../../protocol/public-key.ts';
import type { RelayEnrolmentRow } from '../../core/rows.ts';
import { type RelayScope, addToEnrolment, enrolmentIn, putEnrolment } from '../../office/relay-rows.ts';
import { RelayProblem } from '../relay-request.ts';
import type { RelayV1Client } from '../relay-v1-client.ts';
import { type HostAtRelay, enrolled, isRunningOut, publishEncKey } from './make-known.ts';
import { freshProof } from './relay-proof.ts';

export interface MakeKnownInV1 extends HostAtRelay {
  client: RelayV1Client;
  relayPubkey: PublicKey;
  /** As it was last known. */
  epoch: Epoch | null;
  /** The enrolment told an epoch. */
  enter: (scope: RelayScope) => Promise<void>;
}

/** Resolves when the relay knows all of it. Throws `RelayCallFailed` and `ProofUnavailable`. */
export async function makeKnownInV1(parts: MakeKnownInV1): Promise<{ scope: RelayScope; known: RelayEnrolmentRow }> {
  const { office, identity, client } = parts;
  const { known: enrolment, scope } = await enrol(parts);
  if (enrolment.encKey?.encPub === identity.sealKey.encPub) return { scope, known: enrolment };
  const encKey = await publishEncKey(parts, {
    publish: (advertisement) => client.publishEncKey(advertisement),
    shown: () => client.encKeyOf(identity.hostName),
    otherwise: 'the relay shows another key for the name of this host: others may have this name there',
  });
  const known = { ...enrolment, encKey };
  await office.store.transact((tx) => addToEnrolment(tx, scope, known));
  return { scope, known };
}

async function enrol(parts: MakeKnownInV1): Promise<{ scope: RelayScope; known: RelayEnrolmentRow }> {
  const { office, identity, client, relayPubkey, epoch, proof, stopping } = parts;
  const { publicKey: hostPubkey } = identity.signer;
  const scopeIn = (generation: Epoch): RelayScope => ({ relayPubkey, epoch: generation, hostPubkey });
  const before = epoch === null ? undefined : await office.store.read((reader) => enrolmentIn(reader, scopeIn(epoch)));
  if (before && epoch !== null && !isRunningOut(before, office.nowMs()))
    return { scope: scopeIn(epoch), known: before };
  const fresh = proof && (await freshProof(proof, identity.signer, stopping));
  let answer: Awaited<ReturnType<RelayV1Client['enrol']>>;
  try {
    answer = await client.enrol('', fresh?.proof);
  } catch (error) {
    // An earlier token may be good for a while yet.
    if (!(error instanceof RelayProblem) || error.status === 429 || !before || epoch === null) throw error;
    office.log('warn', 'the relay did not renew the enrolment', { code: error.code });
    return { scope: scopeIn(epoch), known: before };
  }
  const scope = scopeIn(answer.epoch as Epoch);
  await parts.enter(scope);
  const isSame = scope.epoch === epoch;
  const known = enrolled(isSame ? before : undefined, answer, fresh?.validUntilMs ?? null, office.nowMs());
  await office.store.transact((tx) => putEnrolment(tx, scope, known));
  return { scope, known };
}

/**
 * Registers this host at a relay of v1: the enrolment, whose answer tells the epoch, and the encryption key. v1 has no
 * list of senders and no rotations: a new key enrols beside the old one.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayEnrolmentRow } from '../core/rows.ts';
import { type RelayScope, addToEnrolment, enrolmentIn, putEnrolment } from './relay-rows.ts';
import { RelayProblem } from './relay-request.ts';
import type { RelayV1Client } from './relay-v1-client.ts';
import {
  type EncKeyRoutes,
  type HostAtRelay,
  enrolled,
  forgettingWhenUnknown,
  isRunningOut,
  publishEncKey,
} from './register-host.ts';
import { freshToken } from './enrolment-token.ts';

export interface MakeKnownInV1 extends HostAtRelay {
  client: RelayV1Client;
  relayPubkey: PublicKey;
  /** As it was last known. */
  epoch: Epoch | null;
  /** The enrolment told an epoch. */
  enter: (scope: RelayScope) => Promise<void>;
}

/** Resolves when the relay knows all of it. Throws `RelayCallFailed` and `TokenUnavailable`. */
export async function registerHostInV1(parts: MakeKnownInV1): Promise<{ scope: RelayScope; known: RelayEnrolmentRow }> {
  const { context, identity, client } = parts;
  const { known: enrolment, scope } = await enrol(parts);
  if (enrolment.encKey?.encPub === identity.sealKey.encPub) return { scope, known: enrolment };
  const routes: EncKeyRoutes = {
    publish: (advertisement) => client.publishEncKey(advertisement),
    shown: () => client.encKeyOf(identity.hostName),
    otherwise: 'the relay shows another key for the name of this host: others may have this name there',
  };
  const encKey = await forgettingWhenUnknown(context, scope, () => publishEncKey(parts, routes));
  const known = { ...enrolment, encKey };
  await context.store.transact((tx) => addToEnrolment(tx, scope, known));
  return { scope, known };
}

async function enrol(parts: MakeKnownInV1): Promise<{ scope: RelayScope; known: RelayEnrolmentRow }> {
  const { context, identity, client, relayPubkey, epoch, proof, stopping } = parts;
  const { publicKey: hostPubkey } = identity.signer;
  const scopeIn = (generation: Epoch): RelayScope => ({ relayPubkey, epoch: generation, hostPubkey });
  const before = epoch === null ? undefined : await context.store.read((reader) => enrolmentIn(reader, scopeIn(epoch)));
  if (before && epoch !== null && !isRunningOut(before, context.nowMs()))
    return { scope: scopeIn(epoch), known: before };
  const fresh = proof && (await freshToken(proof, identity.signer, stopping));
  let answer: Awaited<ReturnType<RelayV1Client['enrol']>>;
  try {
    answer = await client.enrol('', fresh?.proof);
  } catch (error) {
    // An earlier token may be good for a while yet.
    if (!(error instanceof RelayProblem) || error.status === 429 || !before || epoch === null) throw error;
    context.log('warn', 'the relay did not renew the enrolment', { code: error.code });
    return { scope: scopeIn(epoch), known: before };
  }
  const scope = scopeIn(answer.epoch as Epoch);
  await parts.enter(scope);
  const isSame = scope.epoch === epoch;
  const known = enrolled(isSame ? before : undefined, answer, fresh?.validUntilMs ?? null, context.nowMs());
  await context.store.transact((tx) => putEnrolment(tx, scope, known));
  return { scope, known };
}

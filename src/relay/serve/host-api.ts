/** The handler of the requests of hosts with its operations and rate limits, and the table of all operations. */
import {
  BODY_BYTES_MAX,
  HOUR_MS,
  LOG_READS_OF_STRANGERS_PER_SECOND,
  LOG_READS_PER_MINUTE,
  PUBLICATIONS_PER_HOUR,
} from '../../protocol/limits.ts';
import type { Epoch } from '../../protocol/names.ts';
import { accountTokenAuthority } from '../auth/account-token.ts';
import { hostKeyAuthority } from '../auth/authority.ts';
import type { Challenges } from '../auth/challenges.ts';
import { InspectedKeys } from '../auth/inspected-keys.ts';
import { Issuer } from '../auth/issuer.ts';
import { Jwks } from '../auth/jwks.ts';
import { RateLimiter } from '../../http/budget.ts';
import type { LostItems } from '../engine/lost-items.ts';
import { Handler, type HandlerOptions } from '../http/handler.ts';
import { PageWriter } from '../http/page-writer.ts';
import { type Operation, type RelayParts, routeOf } from '../http/operation.ts';
import { RELAY_OPERATIONS } from '../http/operations.ts';
import { OPERATOR_OPERATIONS } from '../operator/operations.ts';
import type { RelayOptions } from './options.ts';

const SECOND_MS = 1_000;

interface HostApiOptions {
  relay: Pick<RelayOptions, 'version' | 'bodyBytesMax' | 'issuer' | 'log'>;
  /** The lead of the shared log, if there is one. */
  lead: { contradicted: () => Promise<void> } | undefined;
  shared: Omit<HandlerOptions, 'routes'>;
  challenges: Challenges;
  lostItems: LostItems;
  newEpoch: () => Epoch;
}

interface HostApi {
  handler: Handler;
  /** The issuer's keys, on a relay that has an issuer: they are fetched once `jwks.start` is called. */
  jwks: Jwks | undefined;
  endEpoch: RelayParts['endEpoch'];
}

/** Every operation of relays: what the OpenAPI document describes, and the tests hold each answer to. */
export const OPERATIONS: readonly Operation[] = [
  ...RELAY_OPERATIONS.map((operation): Operation => ({ ...operation, listener: 'relay' })),
  ...OPERATOR_OPERATIONS,
];

const isAnswered =
  (isHosted: boolean) =>
  ({ isHostedOnly }: Pick<Operation, 'isHostedOnly'>): boolean =>
    isHosted || !isHostedOnly;

/** Lists everything that a relay answers, to hosts and to its operator. `isHosted`: an issuer admits its hosts. */
export function operationsOf(isHosted: boolean): readonly Operation[] {
  return OPERATIONS.filter(isAnswered(isHosted));
}

export function hostApi(options: HostApiOptions): HostApi {
  const { relay, shared, challenges, lostItems } = options;
  const { engine, relayPubkey, signatures, clock, timers, heldBytes, work } = shared;
  const hosted = hostedParts(relay, shared);
  const parts = {
    engine,
    relayPubkey,
    signatures,
    challenges,
    keys: new InspectedKeys((key) => engine.directory.get(key) !== undefined),
    authority: hosted?.authority ?? hostKeyAuthority,
    issuer: hosted?.issuer,
    pageWriter: new PageWriter({ engine, clock, timers, lostItems, heldBytes }),
    work,
    randomBytes: shared.randomBytes,
    endEpoch: (contradicted: Epoch) => endContradicted(options, contradicted),
    clock,
    timers,
    version: relay.version,
    bodyBytesMax: Math.min(relay.bodyBytesMax, BODY_BYTES_MAX),
  };
  const routes = RELAY_OPERATIONS.filter(isAnswered(hosted !== undefined)).map((operation) =>
    routeOf(operation, parts),
  );
  const handler = new Handler({ ...shared, routes });
  return { handler, jwks: hosted?.jwks, endEpoch: parts.endEpoch };
}

/**
 * Answers a checkpoint that this relay signed and its log contradicts: the store was put back to a copy, and did not
 * know. Its senders push again in the new epoch what the copy lacks.
 */
async function endContradicted(
  { relay: { log }, shared: { engine, clock }, lead, newEpoch }: HostApiOptions,
  ending: Epoch,
): Promise<Epoch> {
  if (lead) {
    await lead.contradicted();
    return engine.epoch;
  }
  const [epoch, nowMs] = [newEpoch(), clock.nowMs()];
  const begun = await engine.rotateEpoch({ type: 'RotateEpoch', epoch, reason: 'log-contradicted', ending, nowMs });
  if (begun.epoch === epoch)
    log.error(
      { ended: ending },
      'a host or a witness showed a checkpoint that this relay signed and its log contradicts: a new epoch begins; ' +
        'the store was put back to a copy, or two relays run with one key',
    );
  return begun.epoch;
}

type Rates = Pick<RelayOptions, 'enrolRate' | 'pushesPerMinute' | 'clock'>;

export function rateLimits({ enrolRate, pushesPerMinute, clock }: Rates): HandlerOptions['rates'] {
  const { monotonicMs } = clock;
  return {
    challenge: new RateLimiter(enrolRate, monotonicMs),
    enrol: new RateLimiter(enrolRate, monotonicMs),
    rotate: new RateLimiter(enrolRate, monotonicMs),
    deny: new RateLimiter(enrolRate, monotonicMs),
    push: new RateLimiter(pushesPerMinute, monotonicMs),
    senders: new RateLimiter(PUBLICATIONS_PER_HOUR, monotonicMs, HOUR_MS),
    encKey: new RateLimiter(PUBLICATIONS_PER_HOUR, monotonicMs, HOUR_MS),
    log: new RateLimiter(LOG_READS_PER_MINUTE, monotonicMs),
    strangers: new RateLimiter(LOG_READS_OF_STRANGERS_PER_SECOND, monotonicMs, SECOND_MS),
  };
}

/**
 * Makes the parts of a hosted relay: the issuer's keys, its statements about accounts, and the authority that admits by
 * them.
 */
function hostedParts({ issuer: settings, log }: HostApiOptions['relay'], { clock, timers }: HostApiOptions['shared']) {
  if (!settings) return undefined;
  const { jwksUrl, ...names } = settings;
  const { monotonicMs, nowMs } = clock;
  const failed = (reason: string) => log.warn({ reason }, "the issuer's keys could not be fetched");
  const jwks = new Jwks({ url: jwksUrl, fetch, monotonicMs, timers, failed });
  const issuer = new Issuer({ ...names, jwks, nowMs });
  return { jwks, issuer, authority: accountTokenAuthority({ issuer, nowMs, monotonicMs }) };
}

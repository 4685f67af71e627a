/** The handler of the requests of hosts: its routes and its rate limits. */
import { BODY_BYTES_MAX, HOUR_MS, LOG_READS_PER_MINUTE, PUBLICATIONS_PER_HOUR } from '../protocol/limits.ts';
import type { Epoch } from '../protocol/epoch.ts';
import type { Signer } from '../protocol/ed25519.ts';
import { accountTokenAuthority } from './auth/account-token.ts';
import { hostKeyAuthority } from './auth/authority.ts';
import type { Challenges } from './auth/challenges.ts';
import { InspectedKeys } from './auth/inspected-keys.ts';
import { Issuer } from './auth/issuer.ts';
import { Jwks } from './auth/jwks.ts';
import { RateLimiter } from './auth/rate-limit.ts';
import type { LostItems } from './engine/lost-items.ts';
import { encKeyRoutes } from './http/enc-key.ts';
import { Handler, type HandlerOptions } from './http/handler.ts';
import { PageWriter } from './http/page-writer.ts';
import { enrolmentRoutes } from './http/v1-enrolment.ts';
import { v1MessageRoutes } from './http/v1-messages.ts';
import { denyRoute } from './http/v2-deny.ts';
import { infoRoute } from './http/v2-info.ts';
import { logRoutes } from './http/v2-log.ts';
import { pullRoute, ackRoute } from './http/v2-pull.ts';
import { pushRoute } from './http/v2-push.ts';
import { rotateRoute, rotationRoute } from './http/v2-rotate.ts';
import { sendersRoute } from './http/v2-senders.ts';
import type { RelayOptions } from './options.ts';

interface HostApiOptions {
  relay: Pick<RelayOptions, 'version' | 'bodyBytesMax' | 'issuer' | 'log'>;
  shared: Omit<HandlerOptions, 'routes' | 'finished'>;
  signer: Signer;
  challenges: Challenges;
  lostItems: LostItems;
  newEpoch: () => Epoch;
  finished: HandlerOptions['finished'];
}

/** The handler, and the keys of the issuer on a relay that has one: those are fetched once `jwks.start` is called. */
interface HostApi {
  handler: Handler;
  jwks: Jwks | undefined;
}

export function hostApi({ relay, shared, signer, challenges, lostItems, newEpoch, finished }: HostApiOptions): HostApi {
  const { engine, relayPubkey, clock, timers, heldBytes } = shared;
  const { version } = relay;
  const monotonicMs = () => clock.monotonicMs();
  const bodyBytesMax = Math.min(relay.bodyBytesMax, BODY_BYTES_MAX);
  const pageWriter = new PageWriter({ engine, clock, timers, lostItems, heldBytes });
  const keys = new InspectedKeys((key) => engine.directory.get(key) !== undefined);
  const hosted = hostedParts(relay, shared);
  const handler = new Handler({
    ...shared,
    routes: [
      ...enrolmentRoutes({ engine, keys, challenges, authority: hosted?.authority ?? hostKeyAuthority, relayPubkey }),
      ...(hosted ? [denyRoute({ engine, issuer: hosted.issuer })] : []),
      rotateRoute({ engine, keys }),
      rotationRoute({ engine, bodyBytesMax }),
      infoRoute({ engine, relayPubkey, version, bodyBytesMax }),
      pushRoute({ engine, signer, newEpoch, monotonicMs, bodyBytesMax }),
      pullRoute({ engine, clock, timers, pageWriter, bodyBytesMax }),
      ackRoute({ engine, bodyBytesMax }),
      ...v1MessageRoutes({ engine, newEpoch, monotonicMs, pageWriter, bodyBytesMax }),
      sendersRoute({ engine, keys, monotonicMs, bodyBytesMax }),
      ...encKeyRoutes({ engine, bodyBytesMax }),
      ...logRoutes({ engine, relayPubkey, bodyBytesMax }),
    ],
    finished,
  });
  return { handler, jwks: hosted?.jwks };
}

type Rates = Pick<RelayOptions, 'enrolRate' | 'pushesPerMinute' | 'clock'>;

export function rateLimits({ enrolRate, pushesPerMinute, clock }: Rates): HandlerOptions['rates'] {
  const monotonicMs = () => clock.monotonicMs();
  return {
    challenge: new RateLimiter(enrolRate, monotonicMs),
    enrol: new RateLimiter(enrolRate, monotonicMs),
    rotate: new RateLimiter(enrolRate, monotonicMs),
    deny: new RateLimiter(enrolRate, monotonicMs),
    push: new RateLimiter(pushesPerMinute, monotonicMs),
    senders: new RateLimiter(PUBLICATIONS_PER_HOUR, monotonicMs, HOUR_MS),
    encKey: new RateLimiter(PUBLICATIONS_PER_HOUR, monotonicMs, HOUR_MS),
    log: new RateLimiter(LOG_READS_PER_MINUTE, monotonicMs),
  };
}

/** On a hosted relay: the issuer's keys, its statements about accounts, and the authority that admits by them. */
function hostedParts({ issuer: settings, log }: HostApiOptions['relay'], { clock, timers }: HostApiOptions['shared']) {
  if (!settings) return undefined;
  const { jwksUrl, ...names } = settings;
  const monotonicMs = () => clock.monotonicMs();
  const nowMs = () => clock.nowMs();
  const failed = (reason: string) => log.warn({ reason }, "the issuer's keys could not be fetched");
  const jwks = new Jwks({ url: jwksUrl, fetch, monotonicMs, timers, failed });
  const issuer = new Issuer({ ...names, jwks, nowMs });
  return { jwks, issuer, authority: accountTokenAuthority({ issuer, nowMs, monotonicMs }) };
}

/**
 * The small routes of the control socket: invites, a new epoch, a link into the console. An invite's token is made here,
 * and the relay keeps only its hash.
 */
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import type { Clock, RandomBytes } from '../../lib/clock.ts';
import { parseJsonBounded, REQUEST_JSON_BOUNDS } from '../../protocol/bounded-json.ts';
import { sha256Hex } from '../../protocol/digest.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../../protocol/epoch.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { isPrintable } from '../../protocol/printable.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { Engine } from '../engine/engine.ts';
import { type OpenRoute, type RelayRequest, refusalReply } from '../http/route.ts';
import {
  type ConsoleUrlDocument,
  type EpochDocument,
  type InviteDocument,
  InviteRequest,
  type IssuedInviteDocument,
} from './documents.ts';
import { streamLines } from './ndjson.ts';
import { controlProblem } from './problems.ts';

const TOKEN_PREFIX = 'poste-invite-';
const TOKEN_RANDOM_BYTES = 32;

interface InviteRoutesOptions {
  engine: Engine;
  randomBytes: RandomBytes;
}

const parseInvite = parserOf(InviteRequest);

/** `POST /v1/invites` issues an invite, `GET /v1/invites` lists the open ones. */
export function inviteRoutes(options: InviteRoutesOptions): OpenRoute[] {
  const shared = { path: '/v1/invites', access: 'open', counted: undefined } as const;
  const bodyBytesMax = SMALL_BODY_BYTES_MAX;
  return [
    { ...shared, bodyBytesMax, method: 'POST', handle: (request) => issue(request, options) },
    {
      ...shared,
      bodyBytesMax,
      method: 'GET',
      handle: ({ exchange, id, nowMs }) => streamLines(exchange, id, openInvites(options.engine, nowMs)),
    },
  ];
}

async function issue({ body, nowMs }: RelayRequest, { engine, randomBytes }: InviteRoutesOptions): Promise<Reply> {
  const parsed = parseInvite(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  if (!parsed || !isPrintable(parsed.label)) {
    return problemReply('BAD_REQUEST', 'send {label, lifetime_ms}: a short printable text, and 1 minute to 365 days');
  }
  const { label, lifetime_ms: lifetimeMs } = parsed;
  const token = `${TOKEN_PREFIX}${randomBytes(TOKEN_RANDOM_BYTES).toString('base64url')}`;
  const expiresAtMs = nowMs + lifetimeMs;
  const outcome = await engine.admissions.issueInvite({
    type: 'IssueInvite',
    // What a host shows as its proof is hashed as text (POST /v1/relay/enrol).
    inviteHash: sha256Hex(token),
    label,
    expiresAtMs,
    nowMs,
  });
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  const { admission } = engine.settings;
  const document: IssuedInviteDocument = { token, label, issued_at: nowMs, expires_at: expiresAtMs, admission };
  return jsonReply(200, document);
}

async function* openInvites(engine: Engine, nowMs: number): AsyncGenerator<InviteDocument[]> {
  const rows = await engine.admissions.openInvites(nowMs);
  yield rows.map((row) => ({ label: row.label, issued_at: row.issuedAtMs, expires_at: row.expiresAtMs }));
}

interface EpochRouteOptions {
  engine: Engine;
  randomBytes: RandomBytes;
}

/** `POST /v1/epoch`: begins a new epoch, after a restore that other software made. */
export function epochRoute({ engine, randomBytes }: EpochRouteOptions): OpenRoute {
  return {
    method: 'POST',
    path: '/v1/epoch',
    access: 'open',
    counted: undefined,
    bodyBytesMax: SMALL_BODY_BYTES_MAX,
    handle: async ({ nowMs }) => {
      const epoch = epochFromRandom(randomBytes(EPOCH_RANDOM_BYTES));
      await engine.rotateEpoch({ type: 'RotateEpoch', epoch, reason: 'reset', nowMs });
      const document: EpochDocument = { epoch };
      return jsonReply(200, document);
    },
  };
}

interface ConsoleRouteOptions {
  clock: Clock;
  /** The server of the console; `undefined` without an operator listener. */
  operator: () => { consoleUrl(): { url: string; lifetimeMs: number } } | undefined;
}

/** `POST /v1/console`: a URL that opens the console in a browser of this machine, once. */
export function consoleRoute({ clock, operator }: ConsoleRouteOptions): OpenRoute {
  return {
    method: 'POST',
    path: '/v1/console',
    access: 'open',
    counted: undefined,
    bodyBytesMax: SMALL_BODY_BYTES_MAX,
    handle: () => {
      const issued = operator()?.consoleUrl();
      if (!issued) {
        return controlProblem(
          'NO_OPERATOR_LISTENER',
          'this relay serves without its operator listener: start it without --admin-listen off',
        );
      }
      const document: ConsoleUrlDocument = { url: issued.url, expires_at: clock.nowMs() + issued.lifetimeMs };
      return jsonReply(200, document);
    },
  };
}

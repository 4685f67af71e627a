/** `POST /v1/invites` and `GET /v1/invites`: lets one more host in. The token is made here and kept as a hash alone. */
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { sha256Hex } from '../../protocol/digest.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { isPrintable } from '../../protocol/printable.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { RandomBytes } from '../engine/ambient.ts';
import type { Engine } from '../engine/engine.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { refusalReply } from '../http/refusals.ts';
import type { OpenRoute, RelayRequest } from '../http/route.ts';
import { type InviteDocument, InviteRequest, type IssuedInviteDocument } from './documents.ts';
import { streamLines } from './ndjson.ts';

const TOKEN_PREFIX = 'poste-invite-';
const TOKEN_RANDOM_BYTES = 32;

export interface InviteRoutesOptions {
  engine: Engine;
  randomBytes: RandomBytes;
}

const parseInvite = parserOf(InviteRequest);

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
  const outcome = await engine.issueInvite({
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
  const rows = await engine.openInvites(nowMs);
  yield rows.map((row) => ({ label: row.label, issued_at: row.issuedAtMs, expires_at: row.expiresAtMs }));
}

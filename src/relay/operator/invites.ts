/** Invites, for local commands and for the console. The relay keeps the hash of a token alone. */
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import type { RandomBytes } from '../../lib/clock.ts';
import { type Sha256Hex, sha256Hex } from '../../protocol/encodings.ts';
import { type ConsoleInvites, InviteRequest } from '../../protocol/operator-documents.ts';
import { isPrintable } from '../../protocol/printable.ts';
import type { Engine } from '../engine/engine.ts';
import { type RelayRequest, bodyParserOf, refusalReply } from '../http/operation.ts';
import type { IssuedInviteDocument } from './documents.ts';

const TOKEN_PREFIX = 'poste-invite-';
const TOKEN_RANDOM_BYTES = 32;
/** The console shows so many of the open ones. */
const SHOWN_MAX = 200;

const parseInvite = bodyParserOf(InviteRequest);

/**
 * Makes an invite, and answers with what `shown` takes of it. `id`, which names the invite, is the hash of its token.
 */
export async function issueInvite(
  { body, nowMs }: RelayRequest,
  { engine, randomBytes }: { engine: Engine; randomBytes: RandomBytes },
  shown: (issued: IssuedInviteDocument & { id: Sha256Hex }) => object,
): Promise<Reply> {
  const parsed = parseInvite(body);
  if (!parsed || !isPrintable(parsed.label)) {
    return problemReply('BAD_REQUEST', 'send {label, lifetime_ms}: a short printable text, and 1 minute to 365 days');
  }
  const { label, lifetime_ms: lifetimeMs } = parsed;
  const token = `${TOKEN_PREFIX}${randomBytes(TOKEN_RANDOM_BYTES).toString('base64url')}`;
  const expiresAtMs = nowMs + lifetimeMs;
  // The proof that a host shows is hashed as text (POST /v1/relay/enrol).
  const inviteHash = sha256Hex(token);
  const outcome = await engine.admissions.issueInvite({ type: 'IssueInvite', inviteHash, label, expiresAtMs, nowMs });
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  const { admission } = engine.settings;
  return jsonReply(200, shown({ id: inviteHash, token, label, issued_at: nowMs, expires_at: expiresAtMs, admission }));
}

/** The newest first. */
export async function shownInvites(engine: Engine, nowMs: number): Promise<ConsoleInvites> {
  const open = await engine.admissions.openInvites(nowMs);
  const newest = open.toSorted((a, b) => b.issuedAtMs - a.issuedAtMs || (a.inviteHash < b.inviteHash ? -1 : 1));
  const invites = newest.slice(0, SHOWN_MAX).map(({ inviteHash, label, issuedAtMs, expiresAtMs }) => {
    return { id: inviteHash, label, issued_at: issuedAtMs, expires_at: expiresAtMs };
  });
  return { invites, total: open.length, admission: engine.settings.admission };
}

/** Invites: made, listed and revoked, for local commands and for the console. The relay keeps the hash of a token alone. */
import type { RandomBytes } from '../../lib/clock.ts';
import { sha256Hex, type Sha256Hex } from '../../protocol/digest.ts';
import type { ConsoleInvites } from '../../protocol/invite-documents.ts';
import type { Refusal } from '../core/decision.ts';
import type { Engine } from '../engine/engine.ts';
import type { IssuedInviteDocument } from './documents.ts';

const TOKEN_PREFIX = 'poste-invite-';
const TOKEN_RANDOM_BYTES = 32;
/** The console shows so many of the open ones. */
const SHOWN_MAX = 200;

interface AskedInvite {
  label: string;
  lifetimeMs: number;
}

/** The token is made here. `id` names the invite: it is the hash of the token. */
export async function issueInvite(
  { label, lifetimeMs }: AskedInvite,
  { engine, randomBytes }: { engine: Engine; randomBytes: RandomBytes },
  nowMs: number,
): Promise<(IssuedInviteDocument & { type: 'IssuedInvite'; id: Sha256Hex }) | Refusal> {
  const token = `${TOKEN_PREFIX}${randomBytes(TOKEN_RANDOM_BYTES).toString('base64url')}`;
  const expiresAtMs = nowMs + lifetimeMs;
  // What a host shows as its proof is hashed as text (POST /v1/relay/enrol).
  const inviteHash = sha256Hex(token);
  const outcome = await engine.admissions.issueInvite({ type: 'IssueInvite', inviteHash, label, expiresAtMs, nowMs });
  if (outcome.type === 'Refusal') return outcome;
  const { admission } = engine.settings;
  const invite = { token, label, issued_at: nowMs, expires_at: expiresAtMs, admission };
  return { type: 'IssuedInvite', id: inviteHash, ...invite };
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

/** What the owner says of a relay that is to be used, and the relay that answers there. */
import { isHttpsOrLoopback } from '../../protocol/https-or-loopback.ts';
import { displayFingerprint, hostFingerprint, parseFingerprint } from '../../protocol/public-key.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';
import { parseWitnessKey } from '../../protocol/cosignature.ts';
import { certificatesOf } from '../../lib/certificates.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import type { RelayProofSource, RelayRow } from '../core/relay-rows.ts';
import type { RelaySetInput } from '../contract/relays.ts';
import type { HostContext } from '../base/context.ts';
import { ownRelays } from '../outbox/homes.ts';
import { CERTIFICATE_NOT_TRUSTED, RelayCallFailed, callerTrusting } from './relay-request.ts';
import type { PinnedAs } from './relay-rows.ts';
import { shownRelay } from './register-host.ts';

/** The relay that answered at the address. */
export interface NamedRelay {
  url: string;
  pubkey: RelayRow['pubkey'];
  isV1: boolean;
  ca: RelayRow['ca'];
  /** Says whether the owner named its key. */
  isNamed: boolean;
}

/** Asks who is at the address. A refusal when it cannot be used, or is another than the one that the input names. */
export async function namedRelay(
  context: HostContext,
  input: RelaySetInput,
  stopping: AbortSignal,
): Promise<NamedRelay | Refusal> {
  const url = relayUrlOf(input);
  if (isRefusal(url)) return url;
  const wrong = faultOfInput(input);
  if (wrong) return wrong;
  const own = await context.store.read(ownRelays);
  const ca = trustedOf(input, url) ?? own.find(({ row }) => row.url === url)?.row.ca;
  if (ca && 'code' in ca) return ca;
  const relay = await relayAt(context, url, ca, stopping);
  if ('code' in relay) return relay;
  const { pubkey: shown, isV1 } = relay;
  const isNamed = input.key !== undefined;
  if (isV1 && isNamed) {
    const message = `The relay at ${url} speaks only v1, which proves no key: it can be used without --key alone.`;
    return refusal('RELAY_UNREACHABLE', message);
  }
  return refusedKey({ url, pubkey: shown }, input) ?? { url, pubkey: shown, isV1, ca, isNamed };
}

/** Refuses a relay of another key than the owner named, if one was named. */
export function refusedKey(
  { url, pubkey }: Pick<RelayRow, 'url' | 'pubkey'>,
  { key }: Pick<RelaySetInput, 'key'>,
): Refusal | undefined {
  if (key === undefined || parseFingerprint(key) === hostFingerprint(pubkey)) return undefined;
  const shown = displayFingerprint(pubkey);
  const message = `The relay at ${url} has the key ${shown}, and not the one that you named: nothing was changed.`;
  return refusal('RELAY_KEY_MISMATCH', message, { shown, expected: key });
}

/** As it is pinned in the place of `before`: what the input does not name stays as it was. */
export function pinnedAs(
  { url, pubkey, isV1, ca }: NamedRelay,
  input: RelaySetInput,
  before: RelayRow | undefined,
  nowMs: number,
): PinnedAs {
  const proof = proofSource(input) ?? (before?.url === url ? before.proof : null);
  const witnesses = witnessRows(input.witnesses, before?.pubkey === pubkey ? before.witnesses : undefined, nowMs);
  return { url, pubkey, proof, ...(ca && { ca }), ...(isV1 && { isV1 }), ...(witnesses && { witnesses }) };
}

async function relayAt(
  context: HostContext,
  url: string,
  ca: RelayRow['ca'],
  stopping: AbortSignal,
): Promise<(Pick<RelayRow, 'pubkey'> & { isV1: boolean }) | Refusal> {
  const { hostName, signer } = context.identity();
  const nowMs = (): number => context.nowMs();
  try {
    const relay = await shownRelay({ url, signer, hostName, nowMs, stopping, caller: callerTrusting(ca) });
    if (isAcceptablePoint(relay.pubkey)) return relay;
    return refusal('RELAY_UNREACHABLE', `The key that the relay at ${url} shows is not a good one.`);
  } catch (error) {
    if (!(error instanceof RelayCallFailed)) throw error;
    if (error.code === CERTIFICATE_NOT_TRUSTED) {
      const given = ca ? `: the authority of ${ca.path} did not sign it` : '';
      const message =
        `${url} cannot be used: ${error.message}${given}. ` +
        `If a private authority signed it, name its certificate: poste relay set ${url} --ca <file>.`;
      return refusal('RELAY_UNREACHABLE', message);
    }
    return refusal('RELAY_UNREACHABLE', `${url} cannot be used: ${error.message}. Check the address and try again.`);
  }
}

function proofSource({ token_file: path, token_command: command }: RelaySetInput): RelayProofSource | null {
  if (path !== undefined) return { type: 'file', path };
  return command === undefined ? null : { type: 'command', command };
}

/** The certificates that are named for a relay; a refusal when they cannot be used. */
function trustedOf({ ca }: RelaySetInput, url: string): RelayRow['ca'] | Refusal {
  if (!ca) return undefined;
  if (!url.startsWith('https:')) {
    return refusal('BAD_INPUT', `A relay at ${url} shows no certificate: --ca is for https.`, { field: 'ca' });
  }
  const pem = certificatesOf(ca.pem);
  if (pem !== undefined) return { pem, path: ca.path };
  const message = `${ca.path} holds no certificate that can be read: it must be PEM, with -----BEGIN CERTIFICATE-----.`;
  return refusal('BAD_INPUT', message, { field: 'ca' });
}

/** The address that the owner named. */
export function relayUrlOf({ url }: Pick<RelaySetInput, 'url'>): string | Refusal {
  const parsed = parseRelayUrl(url);
  if ('url' in parsed) return parsed.url;
  const { fault } = parsed;
  return refusal('BAD_INPUT', `${fault.charAt(0).toUpperCase()}${fault.slice(1)}.`, { field: 'url' });
}

export const RELAY_URL_CHARACTERS_MAX = 2000;

/** The address without a slash at its end, or why it is none: a sentence without a full stop. */
export function parseRelayUrl(text: string): { url: string } | { fault: string } {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return { fault: 'that is no address of a relay: it looks like https://relay.example' };
  }
  if (text.length > RELAY_URL_CHARACTERS_MAX) return { fault: 'the address of the relay is too long' };
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    return { fault: 'the address of a relay has no user, no password, no query and no fragment' };
  }
  if (!isHttpsOrLoopback(url)) {
    return { fault: 'a relay is spoken to by https, or by http on this machine alone: give an address with https://' };
  }
  return { url: url.href.replace(/\/+$/, '') };
}

export function faultOfKey({ key }: Pick<RelaySetInput, 'key'>): Refusal | undefined {
  if (key === undefined || parseFingerprint(key) !== undefined) return undefined;
  const message = 'The fingerprint must look like SHA256:… or have 64 hexadecimal digits.';
  return refusal('BAD_INPUT', message, { field: 'key' });
}

function faultOfInput({ token_file, token_command, witnesses = [], ...named }: RelaySetInput): Refusal | undefined {
  const wrongKey = faultOfKey(named);
  if (wrongKey) return wrongKey;
  if (token_file !== undefined && token_command !== undefined) {
    const message = 'The token comes from a file or from a command, not from both.';
    return refusal('BAD_INPUT', message, { field: 'token_file' });
  }
  if (witnesses.every(isWitnessKey)) return undefined;
  const message = 'A witness is named by its verifier key, as its owner gives it.';
  return refusal('BAD_INPUT', message, { field: 'witnesses' });
}

function isWitnessKey(vkey: string): boolean {
  const key = parseWitnessKey(vkey);
  return key !== undefined && isAcceptablePoint(key.publicKey);
}

/** Those that are named now, each with what was seen of it before; those of before when none are named. */
function witnessRows(
  named: readonly string[] | undefined,
  before: RelayRow['witnesses'],
  nowMs: number,
): RelayRow['witnesses'] {
  if (named === undefined) return before;
  if (named.length === 0) return undefined;
  const known = new Map(before?.map((row) => [row.vkey, row]));
  return [...new Set(named)].map((vkey) => known.get(vkey) ?? { vkey, atMs: nowMs, epoch: null, size: 0 });
}

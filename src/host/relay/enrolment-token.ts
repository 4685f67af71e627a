/**
 * The token that a relay may ask for besides the host key: an account token that is good for a few minutes, or an
 * invite. It is fetched anew for every enrolment.
 *
 * A file, or what a command prints, is either JSON `{token, cloud_key}` for a hosted relay (the host key vouches for
 * the cloud key here) or any other text, which is passed on as it is.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { calculateJwkThumbprint } from 'jose';
import { cloudKeyCertificate, signDocument } from '../../protocol/documents.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { isObject } from '../../protocol/json.ts';
import { fileFault } from '../../lib/file-fault.ts';
import { utf8Text } from '../../lib/user-text.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { RelayProofSource } from '../core/relay-rows.ts';

const COMMAND_TIMEOUT_MS = 30_000;

/** There is no token; the message says why, and holds nothing of the secret. */
export class TokenUnavailable extends Error {}

interface FreshToken {
  /** The proof as `POST /v1/relay/enrol` takes it. */
  proof: unknown;
  /** When the token in it runs out; null when nothing says so. */
  validUntilMs: number | null;
}

/** Throws `TokenUnavailable`. */
export async function freshToken(source: RelayProofSource, signer: Signer, stopping: AbortSignal): Promise<FreshToken> {
  const text = (source.type === 'file' ? await fileText(source.path) : await outputOf(source.command, stopping)).trim();
  if (text === '') throw new TokenUnavailable('the token for the relay is empty');
  if (Buffer.byteLength(text) > SMALL_BODY_BYTES_MAX) throw new TokenUnavailable('the token for the relay is too long');
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return { proof: text, validUntilMs: null };
  }
  if (!isObject(document)) return { proof: text, validUntilMs: null };
  const { token, cloud_key: cloudKey } = document;
  if (typeof token !== 'string' || !isObject(cloudKey)) {
    throw new TokenUnavailable('the token for the relay is JSON without "token" and "cloud_key"');
  }
  let jkt: string;
  try {
    jkt = await calculateJwkThumbprint(cloudKey);
  } catch {
    throw new TokenUnavailable('the "cloud_key" beside the token for the relay is no public JWK');
  }
  const cert = signDocument(signer, cloudKeyCertificate({ host_pubkey: signer.publicKey, jkt }));
  return { proof: { token, cloud_key: cloudKey, cert }, validUntilMs: expiryOf(token) };
}

async function fileText(path: string): Promise<string> {
  try {
    return utf8Text(await readFile(path));
  } catch (error) {
    throw new TokenUnavailable(`the token for the relay cannot be read from ${path} (${fileFault(error)})`);
  }
}

function outputOf(command: string, stopping: AbortSignal): Promise<string> {
  const options = { timeout: COMMAND_TIMEOUT_MS, maxBuffer: 64 << 10, signal: stopping, encoding: 'buffer' } as const;
  return new Promise((resolve, reject) => {
    execFile('/bin/sh', ['-c', command], options, (error, stdout) => {
      if (error) {
        const why = error.killed ? 'took too long or printed too much' : `ended with ${String(error.code)}`;
        reject(new TokenUnavailable(`the command for the relay's token ${why}`));
        return;
      }
      try {
        resolve(utf8Text(stdout));
      } catch (broken) {
        reject(
          new TokenUnavailable(`what the command for the relay's token printed cannot be read (${fileFault(broken)})`),
        );
      }
    });
  });
}

/** The relay verifies the token; here only its time is of interest. */
function expiryOf(token: string): number | null {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
    const exp = isObject(claims) ? claims['exp'] : undefined;
    return typeof exp === 'number' && Number.isFinite(exp) ? exp * 1000 : null;
  } catch {
    return null;
  }
}

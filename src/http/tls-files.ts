/**
 * The certificate and key of a listener, in two files that a renewal replaces while it serves: they are looked at again
 * every half minute, and new connections get what lies there. A pair that cannot be used changes nothing.
 */
import { X509Certificate, createPrivateKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Timers } from '../lib/clock.ts';
import { fileFault } from '../lib/file-fault.ts';
import { PeriodicTask } from '../lib/periodic-task.ts';

export interface TlsFiles {
  /** PEM: the certificate of the server, then those that lead to its authority. */
  certFile: string;
  /** PEM, without a passphrase. */
  keyFile: string;
}

/** The contents of the files when they were read. */
export interface Tls extends TlsFiles {
  cert: Buffer;
  key: Buffer;
}

/** The files cannot be used. The message is a sentence for the operator; the cause is the error of the system. */
export class TlsRefused extends Error {}

/** A server takes no new connections any more: it could listen neither with a new pair nor with the one before. */
export class NotListening extends Error {}

const LOOK_EVERY_MS = 30_000;

/** Throws `TlsRefused`. */
export async function readTls({ certFile, keyFile }: TlsFiles): Promise<Tls> {
  const [cert, key] = await Promise.all([bytesOf(certFile), bytesOf(keyFile)]);
  const certificate = parseOrRefuse(`${certFile} holds no certificate in PEM`, () => new X509Certificate(cert));
  const privateKey = parseOrRefuse(`${keyFile} holds no private key in PEM without a passphrase`, () =>
    createPrivateKey(key),
  );
  if (!certificate.checkPrivateKey(privateKey))
    throw new TlsRefused(`the key in ${keyFile} is not that of the certificate in ${certFile}`);
  return { certFile, keyFile, cert, key };
}

async function bytesOf(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new TlsRefused(`${file} cannot be read (${fileFault(error)})`, { cause: error });
  }
}

function parseOrRefuse<T>(otherwise: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new TlsRefused(otherwise);
  }
}

interface KeepTlsOptions {
  tls: Tls;
  timers: Timers;
  /** May throw `NotListening`. */
  renew: (tls: Tls) => void;
  log: { info(fields: object, message: string): void; error(fields: object, message: string): void };
}

/**
 * Gives `renew` the pair whenever it has changed, until it is stopped. Files that cannot be used are logged once. A
 * listener that takes no connections any more is tried again with each look, and logged each time.
 */
export function keepTlsCurrent({ tls: first, timers, renew, log }: KeepTlsOptions): PeriodicTask {
  let current = first;
  let said = '';
  let isDeaf = false;
  const look = async (signal: AbortSignal): Promise<void> => {
    const found = await readTls(current);
    if (signal.aborted) return;
    if (isDeaf || !found.cert.equals(current.cert) || !found.key.equals(current.key)) {
      renew(found);
      isDeaf = false;
      current = found;
      log.info({ certificate: current.certFile }, 'new connections get the new certificate');
    }
    said = '';
  };
  const onError = (error: unknown): void => {
    if (error instanceof NotListening) {
      isDeaf = true;
      log.error({ err: error }, 'no new connection is taken: the listener is tried again in half a minute');
      return;
    }
    const { message } = error as Error;
    if (message !== said) log.error({ err: error }, 'the certificate in use stays: the new one cannot be used');
    said = message;
  };
  return new PeriodicTask({ timers, everyMs: LOOK_EVERY_MS, work: look, onError });
}

/** Certificates as people keep them in files: PEM, one or more, with whatever words between them. */
import { X509Certificate } from 'node:crypto';

const BLOCK = /-----BEGIN (?:TRUSTED )?CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END (?:TRUSTED )?CERTIFICATE-----/g;

/** The certificates of a text in PEM, one after another; `undefined` when it holds none, or one that cannot be read. */
export function certificatesOf(text: string): string | undefined {
  try {
    const found = [...text.matchAll(BLOCK)].map(([block]) => new X509Certificate(block).toString());
    return found.length === 0 ? undefined : found.join('');
  } catch {
    return undefined;
  }
}

/** Reads certificate files: one or more certificates in PEM, with any text between them. */
import { X509Certificate } from 'node:crypto';

const BLOCK = /-----BEGIN (?:TRUSTED )?CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END (?:TRUSTED )?CERTIFICATE-----/g;

/** Each certificate in `text`, in PEM. Throws when one is damaged. */
export function certificatesIn(text: string): string[] {
  return [...text.matchAll(BLOCK)].map(([block]) => new X509Certificate(block).toString());
}

/** The certificates in `text`, in PEM, and nothing else of it; `undefined` when there is none, or one is damaged. */
export function certificatesOf(text: string): string | undefined {
  try {
    const found = certificatesIn(text);
    return found.length === 0 ? undefined : found.join('');
  } catch {
    return undefined;
  }
}

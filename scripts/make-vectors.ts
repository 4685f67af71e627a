/**
 * Writes the test vectors of the wire protocol to test/vectors, for authors of clients in other languages:
 *
 *   npm run vectors
 *
 * Everything comes from fixed seeds and fixed times, and Ed25519 signatures are deterministic, so a run changes
 * nothing unless the protocol changed. test/unit/protocol/vectors.test.ts fails when the files and this script differ.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  acceptVectors,
  cloudKeyVectors,
  deliveryReceiptVectors,
  encKeyVectors,
  enrolmentVectors,
  expiryVectors,
  rotationVectors,
  senderListVectors,
} from './vectors/documents.ts';
import { binaryFormVectors } from './vectors/binary-form.ts';
import { cosignatureVectors } from './vectors/cosignature.ts';
import { envelopeVectors } from './vectors/envelope.ts';
import { homeRelaysVectors } from './vectors/home-relays.ts';
import { hopVectors, lanHopVectors } from './vectors/hop.ts';
import { lanHelloVectors, lanPairingVectors } from './vectors/lan-pairing.ts';
import { logProofVectors } from './vectors/log-proof.ts';
import { CONVENTIONS } from './vectors/parties.ts';
import { receiptTreeVectors } from './vectors/receipt-tree.ts';
import { heardVectors, homeVectors, seenVectors } from './vectors/shown.ts';
import { sessionVectors } from './vectors/session.ts';

export const VECTOR_FOLDER = join(import.meta.dirname, '../test/vectors');

/** Every file by its name, as it is to be on disk. */
export async function vectorFiles(): Promise<Map<string, string>> {
  const files: [string, { description: string[] }][] = [
    ['session.json', await sessionVectors()],
    ['hop.json', hopVectors()],
    ['enrolment.json', enrolmentVectors()],
    ['cloud-key.json', await cloudKeyVectors()],
    ['enc-key.json', encKeyVectors()],
    ['sender-list.json', senderListVectors()],
    ['envelope.json', await envelopeVectors()],
    ['accept-receipt.json', acceptVectors()],
    ['binary-form.json', await binaryFormVectors()],
    ['receipt-tree.json', receiptTreeVectors()],
    ['delivery-receipt.json', deliveryReceiptVectors()],
    ['seen.json', await seenVectors()],
    ['heard.json', heardVectors()],
    ['home-relays.json', homeRelaysVectors()],
    ['home.json', await homeVectors()],
    ['expiry-notice.json', expiryVectors()],
    ['rotation.json', rotationVectors()],
    ['log-proof.json', logProofVectors()],
    ['cosignature.json', cosignatureVectors()],
    ['lan-hop.json', lanHopVectors()],
    ['lan-hello.json', lanHelloVectors()],
    ['lan-pairing.json', lanPairingVectors()],
  ];
  return new Map(
    files.map(([name, { description, ...content }]) => {
      const document = { description: [...description, CONVENTIONS], ...content };
      return [name, `${JSON.stringify(document, null, 2)}\n`];
    }),
  );
}

async function writeVectors(): Promise<void> {
  for (const [name, text] of await vectorFiles()) {
    const path = join(VECTOR_FOLDER, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    console.error(`wrote ${path}`);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await writeVectors();

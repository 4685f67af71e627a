/** A process that makes so many pairs of keys for sealed mail: `node many-seal-keys.ts <count>`. */
import { sealSuite } from '../../../../src/host/wire/seal-suite.ts';

for (let left = Number(process.argv[2]); left > 0; left--) await sealSuite.kem.generateKeyPair();

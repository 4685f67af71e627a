import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { releaseMemory } from '../../../src/lib/released-memory.ts';

const LARGE = 1 << 20;

describe('memory that is given back at once', () => {
  it('is gone, without a collection', () => {
    const before = process.memoryUsage().arrayBuffers;
    for (let round = 0; round < 200; round++) {
      const one = Buffer.allocUnsafeSlow(LARGE);
      const view = one.subarray(1);
      const other = gunzipSync(gzipSync(Buffer.alloc(LARGE)), { chunkSize: LARGE + 1 });
      releaseMemory([one.buffer, other.buffer]);
      expect([one.length, view.length, other.length]).toEqual([0, 0, 0]);
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100 * LARGE);
  });

  it('is not what Node.js or threads share', () => {
    const pooled = Buffer.from('small');
    const shared = Buffer.from(new SharedArrayBuffer(LARGE));
    releaseMemory([pooled.buffer, shared.buffer]);
    expect([pooled.toString(), shared.length]).toEqual(['small', LARGE]);
  });

  it('may be nothing', () => {
    expect(() => releaseMemory([])).not.toThrow();
  });
});

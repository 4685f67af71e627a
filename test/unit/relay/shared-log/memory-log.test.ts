/** The shared log in memory that other tests use keeps what a shared log promises. */
import { beforeEach, describe } from 'vitest';
import { MemoryLogServer } from '../../../support/memory-log.ts';
import { keepsWhatASharedLogPromises } from '../../../support/shared-log-conformance.ts';

describe('a shared log in memory', () => {
  let server: MemoryLogServer;
  beforeEach(() => {
    server = new MemoryLogServer();
  });
  keepsWhatASharedLogPromises((format) => server.client(format));
});

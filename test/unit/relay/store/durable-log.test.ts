/**
 * The embedded log and a shared one in memory keep what every durable log promises; test/postgres has the one in
 * PostgreSQL.
 */
import { describe } from 'vitest';
import { embeddedForm, keepsWhatADurableLogPromises, sharedForm } from '../../../support/durable-log-conformance.ts';
import { MemoryLogServer } from '../../../support/memory-log.ts';

describe('the embedded log', () => {
  keepsWhatADurableLogPromises(embeddedForm);
});

describe('a shared log in memory', () => {
  keepsWhatADurableLogPromises(async () => {
    const server = new MemoryLogServer();
    return sharedForm(() => server.client());
  });
});

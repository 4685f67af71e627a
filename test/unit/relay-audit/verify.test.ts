import { describe, expect, test } from 'vitest';
import { openOffline } from '../../../src/relay/store/offline.ts';
import { EVENT_TYPES } from '../../../src/relay/store/record.ts';
import { verified } from '../../support/audits.ts';
import { collected } from '../../support/collected.ts';
import { liveALife } from '../../support/life.ts';
import { openTestRelay } from '../../support/test-relay.ts';

describe('a store that lived', () => {
  test('is verified, whatever happened in it', async () => {
    const relay = await openTestRelay();
    await liveALife(relay.engine, relay.clock);
    await relay.close();
    const report = await verified(relay.folder);
    expect(report.findings).toEqual([]);
    const offline = await openOffline(relay.folder);
    const types = new Set((await collected(offline.store.read(1))).map(({ event }) => event.type));
    await offline.close();
    expect(EVENT_TYPES.filter((type) => !types.has(type))).toEqual([
      'SchemaMigrated',
      'EnrolmentLapsed',
      'InviteSpent',
    ]);
  });
});

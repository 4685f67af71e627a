/** `/v1/hosts`: who is in, whom an operator means, and who is in no longer. */
import { describe, expect, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { displayFingerprint, hostFingerprint } from '../../src/protocol/public-key.ts';
import type { FoundHostDocument, HostDocument, RevokedHostDocument } from '../../src/relay/operator/documents.ts';
import { ADAPTERS, FIRST_ADAPTER } from '../support/adapters.ts';
import { accountEnrolOf, enrolOf, rotateOf } from '../support/commands.ts';
import { hostDocumentOf } from '../support/host-documents.ts';
import { hopBytes } from '../support/hops.ts';
import { type HttpRelay, enrolledRelay, relayForTest } from '../support/http-relay.ts';
import { alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { RawConnection } from '../support/raw-http.ts';

const started = (): Promise<HttpRelay> => relayForTest(FIRST_ADAPTER);

describe('GET /v1/hosts', () => {
  test('lists every key that was ever admitted, with its state and its queue', async () => {
    const relay = await started();
    const { engine } = relay.relay;
    const nowMs = relay.clock.nowMs();
    await relay.enrol(alice, bob);
    const account = { account: 'acme', org: 'org-1', clientId: 'client-1', validUntilMs: nowMs };
    await engine.admissions.enrol(enrolOf(carol, { authorizedBy: 'account-token', answer: { ok: true, ...account } }));
    const wire = envelopeWire('m2');
    await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2', wire)]);
    const [first] = await relay.queue(bob);
    await relay.client(bob).ack(relay.epoch, first?.seq ?? 0);
    await engine.admissions.rotateKey(rotateOf(alice, dave));
    await revoke(relay, dave.key);
    const head = engine.head(bob.key).headSeq;
    expect(await sortedHosts(relay)).toEqual(
      byKey([
        hostDocumentOf(alice, { state: 'rotated', revoked_at: nowMs, rotated_to: dave.key, seen: true }),
        hostDocumentOf(bob, {
          seen: true,
          queue_items: 1,
          queue_bytes: wire.length,
          head_seq: head,
          acked_through: first?.seq ?? 0,
        }),
        hostDocumentOf(carol, {
          state: 'expired',
          account: 'acme',
          org: 'org-1',
          client_id: 'client-1',
          authorized_by: 'account-token',
          valid_until: nowMs,
        }),
        hostDocumentOf(dave, {
          host: 'alice',
          state: 'revoked',
          revoked_at: nowMs,
          seen: true,
          head_seq: engine.head(dave.key).headSeq,
        }),
      ]),
    );
  });

  test('a token that is still valid is live', async () => {
    const relay = await started();
    const answer = { ok: true, account: 'acme', validUntilMs: relay.clock.nowMs() + 1 };
    await relay.relay.engine.admissions.enrol(enrolOf(alice, { authorizedBy: 'account-token', answer }));
    expect(await sortedHosts(relay)).toMatchObject([{ state: 'live' }]);
    relay.clock.move(1);
    expect(await sortedHosts(relay)).toMatchObject([{ state: 'expired' }]);
  });

  test('lists more hosts than go out at once, each of them once', async () => {
    const relay = await started();
    const hosts = Array.from({ length: 1234 }, (_, at) => hostNamed(`host-${at}`));
    await Promise.all(hosts.map((host) => relay.relay.engine.admissions.enrol(enrolOf(host))));
    const listed = await new ControlClient(relay.folder).list('/v1/hosts');
    expect(new Set(listed.map(({ host_pubkey }) => host_pubkey))).toEqual(new Set(hosts.map(({ key }) => key)));
    expect(listed).toHaveLength(hosts.length);
  });
});

describe('GET /v1/hosts/find', () => {
  test('finds a host by fingerprint, in both forms, by key and by name, in letters of either case', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    for (const text of [displayFingerprint(alice.key), hostFingerprint(alice.key), alice.key, 'alice', 'ALICE']) {
      expect(await find(relay, text)).toEqual({ host: hostDocumentOf(alice, { seen: true }), is_former_key: false });
    }
  });

  test('a former key means the host as it is now, over every rotation', async () => {
    const relay = await started();
    await relay.enrol(alice);
    await relay.relay.engine.admissions.rotateKey(rotateOf(alice, bob));
    await relay.relay.engine.admissions.rotateKey(rotateOf(bob, carol));
    for (const former of [alice.key, bob.key, displayFingerprint(alice.key)]) {
      expect(await find(relay, former)).toMatchObject({ host: { host_pubkey: carol.key }, is_former_key: true });
    }
    expect(await find(relay, carol.key)).toMatchObject({ host: { host_pubkey: carol.key }, is_former_key: false });
    expect(await find(relay, 'alice')).toMatchObject({ host: { host_pubkey: carol.key }, is_former_key: false });
  });

  test('a name that two hosts carry is a conflict, which lists their fingerprints', async () => {
    const relay = await started();
    await relay.enrol(alice, { ...bob, name: hostNamed('Alice').name });
    const fingerprints = [alice, bob].map(({ key }) => displayFingerprint(key)).toSorted();
    const found = find(relay, 'alice');
    await expect(found).rejects.toMatchObject({ exit: 'conflict', code: 'AMBIGUOUS_HOST', details: { fingerprints } });
    await expect(found).rejects.toThrow(
      `2 hosts carry this name, so say which by its fingerprint: ${fingerprints.join(', ')}`,
    );
    await revoke(relay, alice.key);
    expect(await find(relay, 'alice')).toMatchObject({ host: { host_pubkey: bob.key } });
  });

  test('a crowded name is a conflict, and lists twenty', async () => {
    const relay = await started();
    const crowd = Array.from({ length: 25 }, (_, at) => ({ ...hostNamed(`crowd ${at}`), name: alice.name }));
    for (const host of crowd) await relay.relay.engine.admissions.enrol(enrolOf(host));
    const found = find(relay, 'alice');
    await expect(found).rejects.toThrow('25 hosts carry this name');
    const twenty: unknown = expect.objectContaining({ length: 20 });
    await expect(found).rejects.toMatchObject({ details: { fingerprints: twenty } });
  });

  test.each([
    ['a name', 'nobody'],
    ['the name of a revoked host', 'bob'],
    ['a key', carol.key],
    ['a fingerprint', displayFingerprint(carol.key)],
  ])('%s that no host has is not found', async (_what, text) => {
    const relay = await started();
    await relay.enrol(alice, bob);
    await revoke(relay, bob.key);
    await expect(find(relay, text)).rejects.toMatchObject({ exit: 'notFound', code: 'UNKNOWN_HOST' });
  });

  test.each(['', 'a b', 'SHA256:x', '\u0000'])('%j names nothing', async (text) => {
    const relay = await started();
    await expect(find(relay, text)).rejects.toMatchObject({ exit: 'usage', code: 'BAD_REQUEST' });
  });
});

describe('POST /v1/hosts/revoke', () => {
  test('revokes for good, once: it is in the log, and survives a restart', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    const lsn = await relay.lastLsn();
    const revokedAtMs = relay.clock.nowMs();
    const document = hostDocumentOf(bob, { state: 'revoked', revoked_at: revokedAtMs, seen: true });
    expect(await revoke(relay, 'bob')).toEqual({ host: document, is_new: true });
    expect(await relay.lastLsn()).toBe(lsn + 1);
    relay.clock.move(1000);
    expect(await revoke(relay, bob.key)).toEqual({ host: document, is_new: false });
    expect(await relay.lastLsn()).toBe(lsn + 1);
    await relay.restart();
    expect(await revoke(relay, bob.key)).toMatchObject({ host: { revoked_at: revokedAtMs }, is_new: false });
    await expect(relay.client(bob).enrol()).rejects.toMatchObject({ status: 403, code: 'ENROL_REFUSED' });
    const { events } = await stoppedLog(relay);
    expect(events.filter(({ type }) => type === 'HostRevoked')).toEqual([
      { type: 'HostRevoked', hostPubkey: bob.key, cause: 'operator', atMs: revokedAtMs },
    ]);
  });

  test.each(ADAPTERS)('ends the pull that the host is waiting in (%s)', async (adapter) => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const connection = await RawConnection.open(relay.port);
    connection.send(hopBytes(relay.hop(bob, 'GET', '/v2/relay/items?wait=25')));
    await expect.poll(() => relay.timers.underWay(25_000), { interval: 2 }).toBe(1);
    await revoke(relay, 'bob');
    expect(await connection.response()).toBeProblem('NOT_ENROLLED');
    expect(relay.timers.underWay(25_000)).toBe(0);
    const { results } = await relay.client(alice).push([itemTo([bob], 'm1')]);
    expect(results).toMatchObject([{ status: 'rejected:target revoked' }]);
    connection.close();
  });

  test('by a former key it is the present one that is revoked', async () => {
    const relay = await started();
    await relay.enrol(alice);
    await relay.relay.engine.admissions.rotateKey(rotateOf(alice, bob));
    expect(await revoke(relay, alice.key)).toMatchObject({ host: { host_pubkey: bob.key }, is_new: true });
    expect(relay.relay.engine.directory.liveCount).toBe(0);
    expect(await revoke(relay, displayFingerprint(alice.key))).toMatchObject({ is_new: false });
  });

  test('of a host and its own rotation at once, whichever came first, no key of it stays', async () => {
    const relay = await started();
    await relay.enrol(alice);
    await Promise.all([relay.relay.engine.admissions.rotateKey(rotateOf(alice, bob)), revoke(relay, alice.key)]);
    expect(relay.relay.engine.directory.liveCount).toBe(0);
  });

  test('revokes one of two namesakes, of the one that is meant', async () => {
    const relay = await started();
    const { engine } = relay.relay;
    await engine.admissions.enrol(accountEnrolOf(alice, 'acme'));
    await engine.admissions.enrol(accountEnrolOf({ ...bob, name: alice.name }, 'other'));
    await expect(revoke(relay, 'alice')).rejects.toMatchObject({ code: 'AMBIGUOUS_HOST' });
    expect(engine.directory.liveCount).toBe(2);
    await revoke(relay, displayFingerprint(bob.key));
    expect(engine.directory.get(alice.key)?.revokedAtMs).toBeNull();
    expect(engine.directory.get(bob.key)?.revokedAtMs).not.toBeNull();
  });

  test.each([{}, { host: 5 }, { host: null }, { host: '' }, { host: 'x'.repeat(101) }, [], 'alice'])(
    '%j is no request',
    async (body) => {
      const relay = await started();
      await expect(new ControlClient(relay.folder).post('/v1/hosts/revoke', body as object)).rejects.toMatchObject({
        code: 'BAD_REQUEST',
      });
    },
  );
});

function byKey(documents: readonly HostDocument[]): HostDocument[] {
  return documents.toSorted((a, b) => (a.host_pubkey < b.host_pubkey ? -1 : 1));
}

async function sortedHosts(relay: HttpRelay): Promise<HostDocument[]> {
  return byKey(await new ControlClient(relay.folder).list('/v1/hosts'));
}

function find(relay: HttpRelay, host: string): Promise<FoundHostDocument> {
  return new ControlClient(relay.folder).get(`/v1/hosts/find?${new URLSearchParams({ host }).toString()}`);
}

function revoke(relay: HttpRelay, host: string): Promise<RevokedHostDocument> {
  return new ControlClient(relay.folder).post('/v1/hosts/revoke', { host });
}

async function stoppedLog(relay: HttpRelay): ReturnType<HttpRelay['stored']> {
  await relay.stop();
  return relay.stored();
}

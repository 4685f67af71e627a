/** Tests what somebody on the LAN gains who has seen a request of a paired host, or has its address: nothing. */
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { setAddress } from '../../../../src/host/peers/peers.ts';
import { probePeer } from '../../../../src/host/doctor/peer-checks.ts';
import { LanClient } from '../../../../src/host/lan/lan-client.ts';
import { PeerAddressCheck } from '../../../../src/host/lan/peer-address.ts';
import { canonicalBytes } from '../../../../src/protocol/documents.ts';
import { verifySignature } from '../../../../src/protocol/ed25519.ts';
import {
  type LanHost,
  inviteAt,
  openLanHost,
  outboxRowsOf,
  pair,
  pairedLanHosts,
  peerOf,
  until,
} from '../../../support/lan-hosts.ts';
import { type Answer, ask, keyOf, signedHop, signerOf } from '../../../support/lan-requests.ts';
import { accepted, addAgents, send } from '../../../support/mail-context.ts';
import { callingAddress } from '../../../support/loopback.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const AGENTS = { method: 'GET', target: '/v1/lan/agents' };
const REPLAYED = { status: 401, document: { code: 'REPLAYED_HOP' } };
const NONCE = Buffer.alloc(16, 7).toString('base64url');

interface Between {
  /** The address at which it listens, and from which it calls. */
  address?: string;
  port?: number;
  /** Sends every request twice and answers what the second brings. */
  twice?: boolean;
}

/** Somebody between two hosts: passes every request on to this port of 127.0.0.1. */
async function between(to: () => number, { address = '127.0.0.1', port = 0, twice = false }: Between = {}) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const { method = '', url: path = '', headers } = request;
      asked.push(`${method} ${path.split('?')[0]}`);
      const body = await buffer(request);
      const pass = (): Promise<{ status: number; said: Buffer }> =>
        new Promise((resolve, reject) => {
          const options = {
            host: '127.0.0.1',
            port: to(),
            localAddress: callingAddress(address),
            method,
            path,
            headers,
            agent: false,
          };
          const passed = httpRequest(options, (answer) => {
            void buffer(answer).then((said) => resolve({ status: answer.statusCode ?? 0, said }));
          });
          passed.on('error', reject);
          passed.end(body);
        });
      if (twice) await pass();
      const { status, said } = await pass();
      response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
      response.end(said);
    })().catch(() => response.destroy());
  });
  await new Promise<void>((ready) => server.listen(port, address, ready));
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, asked };
}

describe('a hop that somebody saw', () => {
  test('is good once, wherever it comes from; the next one of the same host is good', async () => {
    const [here, there] = await pairedLanHosts();
    const asked = { signer: signerOf(there), called: keyOf(here), ...AGENTS };
    const seen = signedHop(asked);
    expect(await seen(here)).toMatchObject({ status: 200 });
    expect(await seen(here)).toMatchObject(REPLAYED);
    expect(await seen(here, '127.0.0.5')).toMatchObject(REPLAYED);
    expect(await signedHop(asked)(here)).toMatchObject({ status: 200 });
    // However many come at once.
    const many = signedHop(asked);
    const answers = await Promise.all(Array.from({ length: 20 }, () => many(here)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ document }) => document['code'] === 'REPLAYED_HOP')).toHaveLength(19);
    // It makes no stranger of the address that it came from.
    for (let at = 0; at < 61; at++) await seen(here, '127.0.0.6');
    expect(await signedHop(asked)(here, '127.0.0.6')).toMatchObject({ status: 200 });
  });

  test('is not good after the host was started again', async () => {
    const [here, there] = await pairedLanHosts();
    const asked = { signer: signerOf(there), called: keyOf(here), ...AGENTS };
    const seen = signedHop(asked);
    const unseen = signedHop(asked);
    expect(await seen(here)).toMatchObject({ status: 200 });
    await here.down();
    await here.up();
    expect(await seen(here)).toMatchObject(REPLAYED);
    expect(await unseen(here)).toMatchObject(REPLAYED);
    expect(await signedHop({ ...asked, nowMs: Date.now() + 1000 })(here)).toMatchObject({ status: 200 });
  });

  test('which its own sender sends twice as well loses and doubles no mail', async () => {
    const [here, there] = await pairedLanHosts();
    await addAgents(here.context, ['eve']);
    await addAgents(there.context, ['bob']);
    const { port, asked } = await between(() => there.lan.port ?? 0, { twice: true });
    await setAddress(here.context, 'there', `127.0.0.1:${port}`);
    accepted(await send(here.context, 'eve', { to: ['bob@there'], subject: 'once' }));
    // The second answer of each is a refusal, and the next try is a hop of its own.
    await expect.poll(() => asked.filter((line) => line === 'POST /v1/lan/items').length).toBeGreaterThan(1);
    await setAddress(here.context, 'there', `127.0.0.1:${there.lan.port}`);
    await until(here, async () =>
      (await outboxRowsOf(here)).every(({ state }) => state === 'done') ? true : undefined,
    );
    const messages = await rowsOf(there.context.store, 'message', []);
    expect(messages.filter(({ subject }) => subject === 'once')).toHaveLength(1);
  });
});

const hello = (host: LanHost, query: string): Promise<Answer> =>
  ask(host, 'GET', `/v1/lan/hello${query}`, { connection: 'close' }, '');

describe('hello', () => {
  test('is signed over the address that was dialled, for the nonce that was asked with', async () => {
    const here = await openLanHost('here');
    await inviteAt(here);
    const address = `127.0.0.1:${here.lan.port}`;
    const { status, document } = await hello(here, `?nonce=${NONCE}&address=${encodeURIComponent(address)}`);
    expect(status).toBe(200);
    const { sig, now, ...others } = document as { sig: string; now: number };
    expect(others).toEqual({ host: 'here', pubkey: keyOf(here), version: '0' });
    const word = (changes: object): Buffer =>
      canonicalBytes({ v: 1, type: 'lan-hello', nonce: NONCE, pubkey: keyOf(here), address, now, ...changes });
    expect(verifySignature(keyOf(here), word({}), sig)).toBe(true);
    expect(verifySignature(keyOf(here), word({ address: '127.0.0.2:1' }), sig)).toBe(false);
  });

  test('is not signed over any other address, and plain hello never is', async () => {
    const here = await openLanHost('here');
    await inviteAt(here);
    const { port } = here.lan;
    for (const address of ['127.0.0.2', 'localhost', '192.168.1.7', '[::1]'].map((host) => `${host}:${port}`)) {
      const { status, document } = await hello(here, `?nonce=${NONCE}&address=${encodeURIComponent(address)}`);
      expect({ address, status, sig: document['sig'] }).toEqual({ address, status: 200, sig: undefined });
    }
    expect((await hello(here, '')).document).not.toHaveProperty('sig');
    expect((await hello(here, '?all')).document).not.toHaveProperty('sig');
  });

  test.each([
    `nonce=${NONCE}`,
    'address=127.0.0.1%3A1',
    `nonce=short&address=127.0.0.1%3A1`,
    `nonce=${NONCE}&address=x`,
  ])('that asks for a signature by half is refused: %s', async (query) => {
    const here = await openLanHost('here');
    await inviteAt(here);
    expect(await hello(here, `?${query}`)).toMatchObject({ status: 400, document: { code: 'BAD_REQUEST' } });
  });
});

describe('the address of a paired host', () => {
  test('does not become that of somebody who has a hop of it and passes hello on', async () => {
    const [here, there] = await pairedLanHosts();
    const known = (await peerOf(here, 'there'))?.address;
    const thief = '127.0.0.77';
    // The thief listens at the port of the host that sleeps, on an address of its own, and can still ask that host.
    const port = there.lan.port ?? 0;
    const { asked } = await between(() => port, { address: thief, port });
    const seen = signedHop({ signer: signerOf(there), called: keyOf(here), ...AGENTS });
    const peer = await peerOf(here, 'there');
    if (!peer) throw new Error('they are paired');
    // Nothing answers at the address that is known.
    await setAddress(here.context, 'there', `127.0.0.9:${port}`);
    expect(await seen(here, thief)).toMatchObject({ status: 200 });
    const moves = new PeerAddressCheck(here.context, new LanClient(here.context, new AbortController().signal));
    expect(await moves.addressAfterCall({ ...peer, address: `127.0.0.9:${port}` }, thief)).toBeUndefined();
    expect(asked).toContain('GET /v1/lan/hello');
    expect((await peerOf(here, 'there'))?.address).toBe(`127.0.0.9:${port}`);
    // A call of the host itself moves it back.
    expect(await signedHop({ signer: signerOf(there), called: keyOf(here), ...AGENTS })(here)).toMatchObject({
      status: 200,
    });
    await until(here, async () => ((await peerOf(here, 'there'))?.address === known ? true : undefined));
  });

  test('stays while the host signs it, also when another caller uses its key from elsewhere', async () => {
    const [here, there] = await pairedLanHosts();
    const peer = await peerOf(here, 'there');
    if (!peer) throw new Error('they are paired');
    const moves = new PeerAddressCheck(here.context, new LanClient(here.context, new AbortController().signal));
    expect(await moves.addressAfterCall(peer, '127.0.0.1')).toBeUndefined();
    const elsewhere = { ...peer, address: `127.0.0.9:${there.lan.port}` };
    expect(await moves.addressAfterCall(elsewhere, '127.0.0.1')).toBe(`127.0.0.1:${there.lan.port}`);
    // A host of several networks signs every address of its own: the one that is known is as good as the other.
    const client = new LanClient(here.context, new AbortController().signal);
    const asked = vi.spyOn(client, 'isAt').mockResolvedValue(true);
    expect(await new PeerAddressCheck(here.context, client).addressAfterCall(peer, '127.0.0.9')).toBeUndefined();
    expect(asked.mock.calls.map(([{ address }]) => address)).toEqual([peer.address]);
  });

  test('is not that of somebody through whom it was paired; it is learned when the host calls itself', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    await pair(there, await openLanHost('other'));
    const { code } = await inviteAt(here, there);
    const thief = '127.0.0.77';
    const { port } = await between(() => here.lan.port ?? 0, { address: thief });
    // It passes on what it is asked at the port where `there` listens, too.
    const { asked } = await between(() => there.lan.port ?? 0, { address: thief, port: there.lan.port ?? 0 });
    const dialled = `${thief}:${port}`;
    expect(await there.lan.accept({ code, address: dialled })).toMatchObject({ host: 'here', address: dialled });
    // `there` may have called `here` through the thief once more meanwhile: then it is asked once more.
    expect([...new Set(asked)]).toEqual(['GET /v1/lan/hello']);
    const listensAt = there.lan.port ?? 0;
    expect(await peerOf(here, 'there')).toMatchObject({ address: null, port: listensAt });
    expect(await signedHop({ signer: signerOf(there), called: keyOf(here), ...AGENTS })(here)).toMatchObject({
      status: 200,
    });
    const address = await until(here, async () => (await peerOf(here, 'there'))?.address ?? undefined);
    expect(address).toBe(`127.0.0.1:${listensAt}`);
  });

  test('is that which it calls from when it is paired without anybody between', async () => {
    const [here, there] = await pairedLanHosts();
    expect(await peerOf(here, 'there')).toMatchObject({ address: `127.0.0.1:${there.lan.port}`, port: there.lan.port });
    expect(await peerOf(there, 'here')).toMatchObject({ address: `127.0.0.1:${here.lan.port}`, port: here.lan.port });
  });

  test('is doubted by doctor where somebody passes calls on', async () => {
    const [here, there] = await pairedLanHosts();
    const client = new LanClient(here.context, new AbortController().signal);
    const peer = await peerOf(here, 'there');
    if (!peer) throw new Error('they are paired');
    expect(await probePeer(here.context, client, peer)).toMatchObject({ type: 'answered', isDoubted: false });
    const { port } = await between(() => there.lan.port ?? 0);
    const passedOn = { ...peer, address: `127.0.0.1:${port}` };
    expect(await probePeer(here.context, client, passedOn)).toMatchObject({ type: 'answered', isDoubted: true });
    // A name is signed by none but the host that advertises it.
    const named = { ...peer, address: `localhost:${there.lan.port}` };
    expect(await probePeer(here.context, client, named)).toMatchObject({ type: 'answered', isDoubted: false });
  });
});

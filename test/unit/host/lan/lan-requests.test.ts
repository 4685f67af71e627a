/** Tests what the listener answers to each caller: hops, strangers, and bytes that no client would send. */
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { lanHopHeaders } from '../../../../src/host/lan/lan-hop.ts';
import { wireOf } from '../../../../src/host/outbox/outbox.ts';
import { rotateOwnKey } from '../../../../src/host/peers/identity.ts';
import { setAddress, unpair } from '../../../../src/host/peers/peers.ts';
import { signerFromSeed } from '../../../../src/protocol/ed25519.ts';
import { LAN_BODY_BYTES_MAX } from '../../../../src/protocol/lan.ts';
import {
  type LanHost,
  inviteAt,
  openLanHost,
  outboxRowsOf,
  pairedLanHosts,
  peerOf,
  quarantineOf,
  until,
} from '../../../support/lan-hosts.ts';
import { type Answer, ask, hop, keyOf, signerOf } from '../../../support/lan-requests.ts';
import { framingsAt } from '../../../support/framings.ts';
import { requestBytes } from '../../../support/raw-http.ts';
import { accepted, addAgents, send } from '../../../support/mail-context.ts';
import { callingAddress } from '../../../support/loopback.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';

const AGENTS = { method: 'GET', target: '/v1/lan/agents' };
const ITEMS = { method: 'POST', target: '/v1/lan/items' };

describe('a hop', () => {
  test('of a paired host is answered; of another, for another, or at another time it is not', async () => {
    const [here, there] = await pairedLanHosts();
    const good = { signer: signerOf(there), called: keyOf(here), ...AGENTS };
    expect(await hop(here, good)).toMatchObject({ status: 200, document: { agents: [] } });
    const stranger = signerFromSeed(randomBytes(32));
    expect(await hop(here, { ...good, signer: stranger })).toMatchObject({
      status: 401,
      document: { code: 'NOT_ENROLLED' },
    });
    // As a host that was called could show it to the next.
    expect(await hop(here, { ...good, called: keyOf(there) })).toMatchObject({
      status: 401,
      document: { code: 'BAD_SIGNATURE' },
    });
    const late = await hop(here, { ...good, nowMs: Date.now() - 301_000 });
    expect(late).toMatchObject({ status: 401, document: { code: 'CLOCK_SKEW', now: expect.any(Number) } });
    expect(await hop(here, { ...good, nowMs: Date.now() + 310_000 })).toMatchObject({ status: 401 });
    expect(await hop(here, { ...good, target: '/v1/lan/agents?all' })).toMatchObject({ status: 200 });
    const unsigned = await ask(here, 'GET', '/v1/lan/agents', {}, '');
    expect(unsigned).toMatchObject({ status: 401, document: { code: 'BAD_SIGNATURE' } });
    const enc = { signer: stranger, called: keyOf(here), method: 'POST', target: '/v1/lan/enc-key', body: {} };
    expect(await hop(here, enc)).toMatchObject({ status: 401, document: { code: 'NOT_ENROLLED' } });
  });

  test('of a host that was let go is a stranger’s', async () => {
    const [here, there] = await pairedLanHosts();
    await unpair(here.context, 'there');
    await inviteAt(here);
    const asked = { signer: signerOf(there), called: keyOf(here), ...AGENTS };
    expect(await hop(here, asked)).toMatchObject({ status: 401, document: { code: 'NOT_ENROLLED' } });
  });

  test('for a retired key of the called host is taken; by a retired key of the caller it is not', async () => {
    const [here, there] = await pairedLanHosts();
    const [oldHere, oldThere] = [keyOf(here), signerOf(there)];
    await rotateOwnKey(here.context);
    expect(await hop(here, { signer: oldThere, called: oldHere, ...AGENTS })).toMatchObject({ status: 200 });
    // As long as what was sealed to its retired keys opens.
    here.clock.aheadMs = 60 * 86_400_000;
    const late = { signer: oldThere, nowMs: Date.now() + here.clock.aheadMs, ...AGENTS };
    expect(await hop(here, { ...late, called: oldHere })).toMatchObject({
      status: 401,
      document: { code: 'BAD_SIGNATURE' },
    });
    expect(await hop(here, { ...late, called: keyOf(here), from: '127.0.0.8' })).toMatchObject({ status: 200 });
    here.clock.aheadMs = 0;
    await rotateOwnKey(there.context);
    await until(here, async () => {
      const { status } = await hop(here, { signer: signerOf(there), called: keyOf(here), ...AGENTS });
      return status === 200 ? true : undefined;
    });
    expect(await hop(here, { signer: oldThere, called: keyOf(here), ...AGENTS })).toMatchObject({ status: 401 });
  });
});

describe('items', () => {
  test('are accepted, duplicate, quarantined or rejected, each for itself and once', async () => {
    const [here, there] = await pairedLanHosts();
    await addAgents(here.context, ['eve']);
    await addAgents(there.context, ['bob']);
    await setAddress(here.context, 'there', '127.0.0.1:1');
    for (const subject of ['one', 'two']) {
      accepted(await send(here.context, 'eve', { to: ['bob@there'], subject }));
    }
    const rows = await outboxRowsOf(here);
    const items = await here.context.store.read((reader) =>
      rows.map(({ kind, itemId, rowId }) => ({
        kind,
        item_id: itemId,
        wire_b64: wireOf(reader, rowId).toString('base64'),
      })),
    );
    const [first, second] = items;
    if (!first || !second) throw new Error('there are two rows');
    const tampered = Buffer.from(second.wire_b64, 'base64').toString().replace('"two"', '"owt"');
    const asked = { signer: signerOf(here), called: keyOf(there), ...ITEMS };
    const body = {
      items: [
        first,
        first,
        { ...second, wire_b64: Buffer.from(tampered).toString('base64') },
        { ...second, wire_b64: 'QR==' },
        { kind: 'parcel', item_id: 'x', wire_b64: 'AAAA' },
        'nothing',
      ],
    };
    const answer = await hop(there, { ...asked, body });
    expect(answer).toMatchObject({
      status: 200,
      document: {
        results: [
          { item_id: first.item_id, status: 'accepted' },
          { item_id: first.item_id, status: 'duplicate' },
          { item_id: second.item_id, status: 'quarantined' },
          { item_id: second.item_id, status: 'rejected:malformed' },
          { item_id: 'x', status: 'rejected:malformed' },
          { item_id: null, status: 'rejected:malformed' },
        ],
      },
    });
    // The same items again.
    expect(await hop(there, { ...asked, body })).toMatchObject({
      document: { results: [{ status: 'duplicate' }, { status: 'duplicate' }, { status: 'quarantined' }, {}, {}, {}] },
    });
    expect(await quarantineOf(there)).toMatchObject([{ reason: 'bad-signature' }]);
    expect(await hop(there, { ...asked, body: { items: [second] } })).toMatchObject({
      document: { results: [{ status: 'accepted' }] },
    });
    for (const broken of [{}, { items: [] }, { items: Array.from({ length: 201 }, () => first) }]) {
      expect(await hop(there, { ...asked, body: broken })).toMatchObject({ status: 400 });
    }
  });

  test('of a stranger go into quarantine, also when a paired host signed them', async () => {
    const [here, there] = await pairedLanHosts();
    const item = { kind: 'envelope', item_id: 'a', wire_b64: Buffer.from('{}').toString('base64') };
    const stranger = signerFromSeed(randomBytes(32));
    const answer = await hop(here, { signer: stranger, called: keyOf(here), ...ITEMS, body: { items: [item] } });
    expect(answer).toMatchObject({
      status: 200,
      document: { results: [{ item_id: 'a', status: 'rejected:quarantine full' }] },
    });
    expect(await quarantineOf(here)).toMatchObject([{ senderPubkey: stranger.publicKey, peerId: null, isBare: true }]);
    expect(await quarantineOf(there)).toEqual([]);
  });
});

describe('a rotation', () => {
  test('of a paired host that no canonical form carries is refused, as one that nobody signed', async () => {
    const [here, there] = await pairedLanHosts();
    const rec = { v: 1, type: 'host-rotation', old_pubkey: keyOf(there), new_pubkey: keyOf(here), iat: 1 };
    const sig = 'A'.repeat(86) + '==';
    const rotation = { rec: { ...rec, more: '\ud800' }, old_sig: sig, new_sig: sig };
    const answer = await ask(here, 'POST', '/v1/lan/rotate', {}, JSON.stringify({ rotation }));
    expect(answer).toMatchObject({ status: 403, document: { code: 'ENROL_REFUSED' } });
  });
});

describe('strangers', () => {
  test('are heard sixty times a minute from one address; paired hosts are not counted with them', async () => {
    const [here, there] = await pairedLanHosts();
    const hello = (): Promise<Answer> => ask(here, 'GET', '/v1/lan/hello', { connection: 'close' }, '', '127.0.0.3');
    expect(await heard(hello, 200)).toBeGreaterThanOrEqual(60);
    const peer = { signer: signerOf(there), called: keyOf(here), ...AGENTS, from: '127.0.0.3' };
    expect(await hop(here, peer)).toMatchObject({ status: 200 });
    here.clock.aheadMs = 60_000;
    expect(await hello()).toMatchObject({ status: 200 });
  });

  test('who name a paired host falsely silence nobody, not even at the address of that host', async () => {
    const [here, there] = await pairedLanHosts();
    const lie = { signer: signerOf(there), called: keyOf(there), ...AGENTS };
    expect(await heard(() => hop(here, { ...lie, from: '127.0.0.4' }), 401)).toBeGreaterThanOrEqual(60);
    await heard(() => hop(here, lie), 401);
    const peer = { signer: signerOf(there), called: keyOf(here) };
    expect(await hop(here, { ...peer, ...AGENTS })).toMatchObject({ status: 200 });
    const body = { items: [{ kind: 'envelope', item_id: 'a', wire_b64: 'e30=' }] };
    expect(await hop(here, { ...peer, ...ITEMS, body })).toMatchObject({ status: 200 });
    // Neither what proves itself: the next key of the host.
    const rotated = async (): Promise<true | undefined> =>
      (await peerOf(here, 'there'))?.keys.at(-1)?.publicKey === keyOf(there) ? true : undefined;
    await rotateOwnKey(there.context);
    await until(here, rotated);
    expect(await hop(here, { ...peer, signer: signerOf(there), ...AGENTS })).toMatchObject({ status: 200 });
  });

  test('who name a paired host falsely soon have no long body read, and its own small ones are read', async () => {
    const [here, there] = await pairedLanHosts();
    // Meanwhile no stranger is heard again, however slow the machine is.
    here.clock.stoppedMs = performance.now();
    const lie = { signer: signerOf(there), called: keyOf(there), ...AGENTS };
    expect(await heard(() => hop(here, lie), 401)).toBe(60);
    // Refused at its head, as nothing else of it comes.
    expect(statusesOf(await exchanged(here, longHead(here, there)))).toEqual([429]);
    const peer = { signer: signerOf(there), called: keyOf(here), ...ITEMS };
    expect(await hop(here, { ...peer, body: itemOf(32 << 10) })).toMatchObject({ status: 200 });
    // At another address the host is heard as ever, and here when the lies are over.
    expect(await hop(here, { ...peer, from: '127.0.0.7', body: itemOf(3 << 20) })).toMatchObject({ status: 200 });
    here.clock.aheadMs = 60_000;
    expect(await hop(here, { ...peer, nowMs: Date.now() + 60_000, body: itemOf(3 << 20) })).toMatchObject({
      status: 200,
    });
  });

  test('who declare long bodies for a paired host, and send nothing, take room from nobody', async () => {
    const [here, there] = await pairedLanHosts();
    const declared: Connection[] = [];
    for (let at = 0; at < 8; at++) {
      const one = await connected(here, `127.0.0.${2 + (at % 4)}`);
      one.socket.write(longHead(here, there));
      declared.push(one);
    }
    // Those heads came before this one, and are waited with for their bodies.
    const peer = { signer: signerOf(there), called: keyOf(here), ...ITEMS, from: '127.0.0.9' };
    const body = itemOf(3 << 20);
    for (const from of ['127.0.0.9', '127.0.0.2']) {
      expect(await hop(here, { ...peer, from, body })).toMatchObject({ status: 200 });
    }
    expect(declared.filter(({ socket }) => socket.destroyed)).toEqual([]);
    for (const { socket, closed } of declared) {
      socket.destroy();
      await closed;
    }
  });

  test('have 64 connections from one address: the next takes the place of the idlest', async () => {
    const here = await openLanHost('here');
    await inviteAt(here);
    const open: Connection[] = [];
    for (let at = 0; at < 64; at++) open.push(await connected(here));
    expect(await ask(here, 'GET', '/v1/lan/hello', { connection: 'close' }, '')).toMatchObject({ status: 200 });
    expect(await open[0]?.closed).toBe('');
    expect(open.filter(({ socket }) => socket.destroyed)).toHaveLength(1);
    for (const each of open) each.socket.destroy();
    await Promise.all(open.map((each) => each.closed));
  });

  test('who open all the connections there may be from eight addresses keep no paired host out', async () => {
    const [here, there] = await pairedLanHosts();
    const strangers: Connection[] = [];
    for (let at = 0; at < 8; at++) {
      const from = `127.0.1.${at}`;
      strangers.push(...(await Promise.all(Array.from({ length: 64 }, () => connected(here, from)))));
    }
    const asked = { signer: signerOf(there), called: keyOf(here), ...AGENTS };
    expect(await hop(here, { ...asked, from: '127.0.0.9' })).toMatchObject({ status: 200 });
    expect(await hop(here, asked)).toMatchObject({ status: 200 });
    for (const each of strangers) each.socket.destroy();
    await Promise.all(strangers.map((each) => each.closed));
  });
});

function itemOf(bytes: number): object {
  return { items: [{ kind: 'envelope', item_id: 'a', wire_b64: Buffer.alloc(bytes, 'x').toString('base64') }] };
}

/** The head of a request that declares the longest body in the name of `there`, signed for another body. */
function longHead(here: LanHost, there: LanHost): string {
  const caller = { signer: signerOf(there), hostName: 'there', nowMs: Date.now() };
  const headers = lanHopHeaders(caller, keyOf(here), ITEMS.method, ITEMS.target, 'other');
  const lines = Object.entries({ host: 'x', ...headers, 'content-length': LAN_BODY_BYTES_MAX });
  return `POST ${ITEMS.target} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
}

/**
 * Returns how often a caller is answered so before it is refused for its rate. One goes by in a second, so it may be
 * more.
 */
async function heard(call: () => Promise<Answer>, status: number): Promise<number> {
  for (let times = 0; ; times++) {
    const answer = await call();
    if (answer.status === 429) return times;
    expect({ times, status: answer.status }).toEqual({ times: expect.toSatisfy((n: number) => n < 600), status });
  }
}

interface Connection {
  socket: ReturnType<typeof connect>;
  closed: Promise<string>;
}

function connected({ lan }: LanHost, localAddress = '127.0.0.1'): Promise<Connection> {
  return new Promise((resolve) => {
    const socket = connect({ port: lan.port ?? 0, host: '127.0.0.1', localAddress: callingAddress(localAddress) });
    const closed = new Promise<string>((done) => {
      let said = '';
      socket.on('data', (chunk: Buffer) => {
        said += chunk.toString('latin1');
      });
      socket.on('error', () => undefined);
      socket.on('close', () => done(said));
    });
    socket.on('connect', () => resolve({ socket, closed }));
  });
}

/** Returns what comes back until the host ends the connection, which it must. */
async function exchanged(host: LanHost, bytes: string): Promise<string> {
  const { socket, closed } = await connected(host);
  socket.write(Buffer.from(bytes, 'latin1'));
  const late = setTimeout(() => socket.destroy(new Error('late')), PATIENCE_MS);
  const said = await closed;
  clearTimeout(late);
  return said;
}

function statusesOf(said: string): number[] {
  return [...said.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
}

function isRefusedAlone(statuses: number[]): boolean {
  return statuses.length <= 1 && statuses.every((status) => status >= 400 && status < 500);
}

describe('framing', () => {
  const HEAD = 'host: x\r\nconnection: close\r\n';
  const cases: [what: string, bytes: string, status: number | null][] = [
    ['a good request', `GET /v1/lan/hello HTTP/1.1\r\n${HEAD}\r\n`, 200],
    [
      'a chunked body',
      `POST /v1/lan/pair HTTP/1.1\r\n${HEAD}transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      411,
    ],
    ['no length', `POST /v1/lan/pair HTTP/1.1\r\n${HEAD}\r\n`, 411],
    ['two lengths', `POST /v1/lan/pair HTTP/1.1\r\n${HEAD}content-length: 2\r\ncontent-length: 3\r\n\r\n{}`, 400],
    [
      'a length and chunks',
      `POST /v1/lan/pair HTTP/1.1\r\n${HEAD}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
    ],
    ['a negative length', `POST /v1/lan/pair HTTP/1.1\r\n${HEAD}content-length: -2\r\n\r\n{}`, 400],
    ['a repeated host', `GET /v1/lan/hello HTTP/1.1\r\n${HEAD}host: y\r\n\r\n`, 400],
    ['a repeated header of the hop', `GET /v1/lan/agents HTTP/1.1\r\n${HEAD}x-mail-ts: 1\r\nX-Mail-Ts: 2\r\n\r\n`, 400],
    ['too long a body', `POST /v1/lan/pair HTTP/1.1\r\n${HEAD}content-length: 8193\r\n\r\n`, 413],
    ['far too long a body', `POST /v1/lan/items HTTP/1.1\r\n${HEAD}content-length: 8388609\r\n\r\n`, 413],
    ['a body where none belongs', `GET /v1/lan/hello HTTP/1.1\r\n${HEAD}content-length: 2\r\n\r\n{}`, 413],
    ['too long a head', `GET /v1/lan/hello HTTP/1.1\r\n${HEAD}x: ${'y'.repeat(10_000)}\r\n\r\n`, 431],
    ['a target with a fragment', `GET /v1/lan/hello#x HTTP/1.1\r\n${HEAD}\r\n`, 400],
    ['a target beyond ASCII', `GET /v1/lan/hell\u00f6 HTTP/1.1\r\n${HEAD}\r\n`, 400],
    ['another route', `GET /v1/relay/info HTTP/1.1\r\n${HEAD}\r\n`, 404],
    ['another path', `GET /v1/lan/../lan/hello HTTP/1.1\r\n${HEAD}\r\n`, 404],
    ['another method', `PUT /v1/lan/hello HTTP/1.1\r\n${HEAD}content-length: 0\r\n\r\n`, 405],
    ['no HTTP', 'hello\r\n\r\n', 400],
    ['half a body', `POST /v1/lan/pair HTTP/1.1\r\n${HEAD}content-length: 2\r\n\r\n[]`, 400],
    ['a broken body', `POST /v1/lan/pair HTTP/1.1\r\n${HEAD}content-length: 3\r\n\r\n{"a`, 400],
    ['a body that is no UTF-8', `POST /v1/lan/rotate HTTP/1.1\r\n${HEAD}content-length: 4\r\n\r\n{"\xff"`, 400],
  ];

  test('that is wrong is refused, and the connection ends', async () => {
    const here = await openLanHost('here');
    await inviteAt(here);
    for (const [what, bytes, status] of cases) {
      const said = await exchanged(here, bytes);
      expect({ what, status: Number(/^HTTP\/1\.1 (\d{3})/.exec(said)?.[1]) }).toEqual({ what, status });
    }
    const put = await exchanged(here, `PUT /v1/lan/hello HTTP/1.1\r\n${HEAD}content-length: 0\r\n\r\n`);
    expect(put.toLowerCase()).toContain('\r\nallow: get\r\n');
  });

  test('that is refused hides no other request: what comes behind is not answered and not done', async () => {
    const [here, there] = await pairedLanHosts();
    const items = (itemId: string): string => {
      const body = JSON.stringify({ items: [{ kind: 'envelope', item_id: itemId, wire_b64: 'e30=' }] });
      const caller = { signer: signerOf(there), hostName: 'there', nowMs: Date.now() };
      const headers = lanHopHeaders(caller, keyOf(here), ITEMS.method, ITEMS.target, body);
      return requestBytes(ITEMS.method, ITEMS.target, headers, body).toString('latin1');
    };
    const targets = { postTarget: '/v1/lan/pair', getTarget: '/v1/lan/hello', headBytesMax: 4096 };
    for (const [what, bytes] of framingsAt(targets)) {
      const said = await exchanged(here, bytes + items(what));
      // The refusal may be lost with the connection, and nobody answers CONNECT.
      expect({ what, statuses: statusesOf(said) }).toEqual({ what, statuses: expect.toSatisfy(isRefusedAlone) });
    }
    // Of a sound framing, but for no route.
    expect(statusesOf(await exchanged(here, `GET /none HTTP/1.1\r\nhost: x\r\n\r\n${items('none')}`))).toEqual([404]);
    expect(await quarantineOf(here)).toEqual([]);
    // Alone it is done.
    const { socket, closed } = await connected(here);
    socket.end(Buffer.from(items('alone'), 'latin1'));
    await closed;
    await expect.poll(async () => (await quarantineOf(here)).map(({ itemId }) => itemId)).toEqual(['alone']);
  });

  test('a wish for another protocol is answered, and ends the connection', async () => {
    const here = await openLanHost('here');
    await inviteAt(here);
    const upgrade = 'GET /v1/lan/hello HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n';
    expect(statusesOf(await exchanged(here, upgrade))).toEqual([200]);
    const expecting = `GET /v1/lan/hello HTTP/1.1\r\n${HEAD}expect: something\r\n\r\n`;
    expect(statusesOf(await exchanged(here, expecting))).toEqual([200]);
  });

  test('of a request that comes before the last was answered: it is not served, and the connection ends', async () => {
    const here = await openLanHost('here');
    await inviteAt(here);
    const hello = 'GET /v1/lan/hello HTTP/1.1\r\nhost: x\r\n\r\n';
    expect(statusesOf(await exchanged(here, hello + hello))).toEqual([200]);
  });

  test('a body that never comes ends with its connection, and holds up no stop', async () => {
    const here = await openLanHost('here');
    await inviteAt(here);
    const { socket, closed } = await connected(here);
    socket.write(`POST /v1/lan/pair HTTP/1.1\r\n${HEAD}content-length: 100\r\n\r\n{`);
    await ask(here, 'GET', '/v1/lan/hello', { connection: 'close' }, '');
    socket.resetAndDestroy();
    await closed;
    const slow = await connected(here);
    slow.socket.write(`POST /v1/lan/pair HTTP/1.1\r\n${HEAD}content-length: 100\r\n\r\n{`);
    await ask(here, 'GET', '/v1/lan/hello', { connection: 'close' }, '');
    await here.down();
    expect(await slow.closed).toBe('');
  });
});

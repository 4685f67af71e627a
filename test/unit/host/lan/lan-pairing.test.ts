/** Pairing by a code: what pairs, what does not, and what is left when an answer is lost. */
import { createHmac } from 'node:crypto';
import { type IncomingMessage, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { PairWaitResult } from '../../../../src/host/contract/peers.ts';
import { isRefusal, type Refusal } from '../../../../src/host/core/refusal.ts';
import { encKeyDocument, rotateOwnKey } from '../../../../src/host/peers/identity.ts';
import { listPeers, unpair } from '../../../../src/host/peers/peers.ts';
import type { LanPairing } from '../../../../src/protocol/lan.ts';
import { pairingCodeText, pairingMac, parsePairingCode } from '../../../../src/protocol/pairing-code.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { type LanHost, fingerprintOf, inviteAt, openLanHost, pair, until } from '../../../support/lan-hosts.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

/** Returns what `acceptor` says to the host that made `code`; the MAC covers its words with the changes. */
function wordOf(acceptor: LanHost, inviter: LanHost, code: string, changes: Partial<LanPairing> = {}): LanPairing {
  const identity = acceptor.context.identity();
  const { hostName: host, signer } = identity;
  const body = { host, pubkey: signer.publicKey, enc_key: encKeyDocument(identity), port: 9, ...changes };
  const parties = { inviter_pubkey: keyOf(inviter), acceptor_pubkey: body.pubkey as PublicKey };
  return { ...body, mac: pairingMac(secretOf(code), { role: 'acceptor', ...parties, body }) };
}

function secretOf(code: string): Buffer {
  const secret = parsePairingCode(code)?.secret;
  if (!secret) throw new Error('it is no code');
  return secret;
}

const keyOf = ({ context }: LanHost): PublicKey => context.identity().signer.publicKey;

async function post(address: string, word: LanPairing): Promise<{ status: number; code?: string; detail?: string }> {
  const response = await fetch(`http://${address}/v1/lan/pair`, { method: 'POST', body: JSON.stringify(word) });
  return { status: response.status, ...((await response.json()) as object) };
}

/** A code as the host made it, with another secret. */
function wrongCode(host: LanHost): string {
  return pairingCodeText(keyOf(host), Buffer.alloc(16, 7));
}

const namesOf = async (host: LanHost): Promise<string[]> =>
  (await listPeers(host.context)).peers.map((peer) => peer.host);

/** Returns what the owner of `here` is shown of the host that came with the code, as soon as one came. */
const shown = (here: LanHost, code: string): Promise<PairWaitResult | Refusal> =>
  here.lan.invitation.acceptor({ code, wait_ms: 20_000 }, new AbortController().signal);

describe('a pairing code', () => {
  test('pairs one host, once', async () => {
    const [here, there, other] = [await openLanHost('here'), await openLanHost('there'), await openLanHost('other')];
    const invitation = await inviteAt(here, there);
    expect(await there.lan.accept(invitation)).toMatchObject({ host: 'here' });
    expect(await other.lan.accept(invitation)).toMatchObject({ code: 'PAIRING_REFUSED' });
    expect([await namesOf(here), await namesOf(there), await namesOf(other)]).toEqual([['there'], ['here'], []]);
  });

  test('pairs one host when several come with it at once', async () => {
    const here = await openLanHost('here');
    const others = await Promise.all(['a', 'b', 'c', 'd'].map((name) => openLanHost(name)));
    const invitation = await inviteAt(here);
    const accepted = Promise.all(others.map((other) => other.lan.accept(invitation)));
    const { acceptor } = (await shown(here, invitation.code)) as PairWaitResult;
    const { fingerprint = '' } = acceptor ?? {};
    await here.lan.invitation.confirm({ code: invitation.code, fingerprint });
    const answers = await accepted;
    expect(answers.filter((answer) => !isRefusal(answer))).toHaveLength(1);
    expect(await namesOf(here)).toHaveLength(1);
  });

  test('is still good after any number of wrong tries', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here, there);
    for (let tries = 1; tries <= 20; tries++) {
      const answer = await post(address, wordOf(there, here, wrongCode(here)));
      expect(answer).toMatchObject({ status: 403, detail: 'the code is wrong' });
    }
    expect(await there.lan.accept({ code, address })).toMatchObject({ host: 'here' });
    const late = await post(address, wordOf(there, here, code, { host: 'late' }));
    expect(late).toMatchObject({ detail: 'another host came with this code before' });
  });

  test('ends ten minutes after it was made, by the clock that does not go back', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here, there);
    const word = wordOf(there, here, code);
    here.clock.aheadMs = 600_000;
    expect(await post(address, word)).toMatchObject({ status: 403, detail: 'no invitation is open' });
    const again = await inviteAt(here, there);
    here.clock.aheadMs = 1_190_000;
    expect(await post(again.address, wordOf(there, here, again.code))).toMatchObject({ status: 200 });
  });

  test('takes the place of the one before', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const first = await inviteAt(here);
    await inviteAt(here);
    expect(await there.lan.accept(first)).toMatchObject({ code: 'PAIRING_REFUSED' });
  });

  test('of another host is not even shown to the host that is called', async () => {
    const [here, there, other] = [await openLanHost('here'), await openLanHost('there'), await openLanHost('other')];
    const { address } = await inviteAt(here);
    const { code } = await inviteAt(other);
    const refused = await there.lan.accept({ code, address });
    expect(refused).toMatchObject({ code: 'PAIRING_REFUSED', message: expect.stringContaining('is not the one') });
    expect(await there.lan.accept({ code: 'what', address })).toMatchObject({ code: 'BAD_INPUT' });
    expect(await there.lan.accept({ code, address: '127.0.0.1:1' })).toMatchObject({ code: 'PEER_UNREACHABLE' });
    expect(there.lan.port).toBeUndefined();
  });
});

describe('a host that came with the code', () => {
  test('is no peer until the owner of the inviting host has confirmed it, and then is', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here);
    const [fingerprint, wrong] = [fingerprintOf(there), fingerprintOf(here)];
    expect(await here.lan.invitation.confirm({ code, fingerprint })).toMatchObject({ code: 'PAIRING_REFUSED' });
    const accepted = there.lan.accept({ code, address });
    const { acceptor } = (await shown(here, code)) as PairWaitResult;
    expect(acceptor).toEqual({ host: 'there', fingerprint, address: `127.0.0.1:${there.lan.port}` });
    // What the owner was not shown is not confirmed, and nothing is taken from the host, or told to it.
    expect(await here.lan.invitation.confirm({ code, fingerprint: wrong })).toMatchObject({ code: 'PAIRING_REFUSED' });
    expect([await rowsOf(here.context.store, 'peer', []), await namesOf(there)]).toEqual([[], []]);
    expect(await here.lan.invitation.confirm({ code, fingerprint })).toMatchObject({ host: 'there', fingerprint });
    expect(await accepted).toMatchObject({ host: 'here' });
    expect([await namesOf(here), await namesOf(there)]).toEqual([['there'], ['here']]);
    expect(await here.lan.invitation.confirm({ code, fingerprint })).toMatchObject({ code: 'PAIRING_REFUSED' });
  });

  test('is refused when the owner declines, and so is everybody else: the code is known to a stranger', async () => {
    const [here, thief, there] = [await openLanHost('here'), await openLanHost('there'), await openLanHost('there')];
    const invitation = await inviteAt(here);
    const stolen = thief.lan.accept(invitation);
    expect(await shown(here, invitation.code)).toMatchObject({ acceptor: { fingerprint: fingerprintOf(thief) } });
    // Who comes second learns that somebody was before it, at once.
    expect(await there.lan.accept(invitation)).toMatchObject({ message: expect.stringContaining('another host came') });
    here.lan.invitation.decline({ code: invitation.code });
    expect(await stolen).toMatchObject({ code: 'PAIRING_REFUSED', message: expect.stringContaining('no invitation') });
    expect(await namesOf(here)).toEqual([]);
    await until(here, async () => (here.lan.port === undefined ? true : undefined));
  });

  test('cannot change its name once it came', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here);
    const accepted = there.lan.accept({ code, address });
    await shown(here, code);
    const renamed = await post(address, wordOf(there, here, code, { host: 'server' }));
    expect(renamed).toMatchObject({ status: 403, detail: 'another host came with this code before' });
    await here.lan.invitation.confirm({ code, fingerprint: fingerprintOf(there) });
    expect(await accepted).toMatchObject({ host: 'here' });
  });

  test('of another fingerprint than the owner named is refused, and does not use up the code', async () => {
    const [here, there, thief] = [await openLanHost('here'), await openLanHost('there'), await openLanHost('there')];
    const invitation = await inviteAt(here, there);
    const refused = await thief.lan.accept(invitation);
    expect(refused).toMatchObject({ code: 'PAIRING_REFUSED', message: expect.stringContaining('another fingerprint') });
    expect(await there.lan.accept(invitation)).toMatchObject({ host: 'here' });
  });

  test('asks again for as long as it is told that nobody has confirmed it', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here, there);
    let asked = 0;
    const port = await listening(async (url, body, answer) => {
      const isPair = url === '/v1/lan/pair';
      if (isPair && asked++ === 0) return answer({ code: 'UNAVAILABLE', detail: 'not confirmed yet' }, 503);
      const response = await fetch(`http://${address}${url}`, isPair ? { method: 'POST', body } : {});
      answer((await response.json()) as object, response.status);
    });
    expect(await there.lan.accept({ code, address: `127.0.0.1:${port}` })).toMatchObject({ host: 'here' });
    expect(asked).toBe(2);
  });

  test('is paired by a new code when the daemon that invited ended before it was confirmed', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here);
    const accepted = there.lan.accept({ code, address });
    await shown(here, code);
    await here.down();
    expect(await accepted).toMatchObject({ code: expect.stringMatching(/^(PAIRING_REFUSED|PEER_UNREACHABLE)$/) });
    await here.up();
    expect([await namesOf(here), await namesOf(there)]).toEqual([[], []]);
    expect(await shown(here, code)).toMatchObject({ code: 'PAIRING_REFUSED' });
    expect(await pair(here, there)).toMatchObject({ host: 'here' });
  });

  test('is not paired once the inviting host has another key: the code stands for the former one', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here);
    const accepted = there.lan.accept({ code, address });
    await shown(here, code);
    await rotateOwnKey(here.context);
    const confirmed = await here.lan.invitation.confirm({ code, fingerprint: fingerprintOf(there) });
    expect(confirmed).toMatchObject({ code: 'PAIRING_REFUSED', message: expect.stringContaining('has a new key') });
    here.lan.invitation.close();
    expect(await accepted).toMatchObject({ code: 'PAIRING_REFUSED' });
    expect([await namesOf(here), await namesOf(there)]).toEqual([[], []]);
  });

  test('goes with the command that invited', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here);
    const command = new AbortController();
    const ended = here.lan.invitation.acceptor({ code, wait_ms: 20_000 }, command.signal);
    command.abort();
    expect(await ended).toMatchObject({ code: 'PAIRING_REFUSED' });
    expect(await there.lan.accept({ code, address })).toMatchObject({
      code: expect.stringMatching(/^(PAIRING_REFUSED|PEER_UNREACHABLE)$/),
    });
  });

  test('and was let go needs a new code', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    await pair(here, await openLanHost('other'));
    const invitation = await inviteAt(here, there);
    expect(await there.lan.accept(invitation)).toMatchObject({ host: 'here' });
    await unpair(here.context, 'there');
    expect(await there.lan.accept(invitation)).toMatchObject({ code: 'PAIRING_REFUSED' });
    expect(await namesOf(here)).toEqual(['other']);
  });
});

describe('an acceptor', () => {
  test('whose words were changed on the way is refused, and its code stays good', async () => {
    const [here, there, other] = [await openLanHost('here'), await openLanHost('there'), await openLanHost('other')];
    const { code, address } = await inviteAt(here, there);
    const word = wordOf(there, here, code);
    const { enc_pub } = encKeyDocument(other.context.identity());
    const bent: object[] = [
      { host: 'elsewhere' },
      { port: 10 },
      { port: undefined },
      { address: '127.0.0.9:9' },
      { enc_key: encKeyDocument(other.context.identity()) },
      { enc_key: { ...word.enc_key, enc_pub } },
      { enc_key: { ...word.enc_key, at: word.enc_key.at + 1 } },
      { more: 'words' },
      { mac: createHmac('sha256', secretOf(code)).update('').digest('base64') },
      { mac: wordOf(there, here, wrongCode(here)).mac },
    ];
    for (const changes of bent) {
      const answer = await post(address, { ...word, ...changes });
      expect({ changes, ...answer }).toMatchObject({ changes, status: 403, detail: 'the code is wrong' });
    }
    for (const broken of [{ mac: 'x' }, { pubkey: 'x' }, { host: '-' }, { address: 'x/y:1' }, { port: 0 }]) {
      expect(await post(address, { ...word, ...broken })).toMatchObject({ status: 400 });
    }
    expect(await namesOf(here)).toEqual([]);
    expect(await post(address, word)).toMatchObject({ status: 200 });
  });

  test('with the name of a paired host, of this one, or with a small-order key is refused', async () => {
    const [here, there, twin] = [await openLanHost('here'), await openLanHost('there'), await openLanHost('THERE')];
    await pair(here, there);
    const refused = await twin.lan.accept(await inviteAt(here));
    expect(refused).toMatchObject({
      code: 'PAIRING_REFUSED',
      message: expect.stringContaining('poste peer remove there'),
    });
    const [namesake, self] = [await openLanHost('Here'), here];
    expect(await namesake.lan.accept(await inviteAt(here))).toMatchObject({ code: 'PAIRING_REFUSED' });
    expect(await self.lan.accept(await inviteAt(here))).toMatchObject({ code: 'PAIRING_REFUSED' });
    const { code, address } = await inviteAt(here);
    const neutral = Buffer.from([1, ...Array.from({ length: 31 }, () => 0)]).toString('base64');
    // The neutral point verifies a fixed signature over anything.
    const sig = Buffer.from([1, ...Array.from({ length: 63 }, () => 0)]).toString('base64');
    const encKey = { ...encKeyDocument(there.context.identity()), host_pubkey: neutral, sig };
    const small = wordOf(there, here, code, { pubkey: neutral, enc_key: encKey });
    // Where OpenSSL verifies nothing under such a key any more, it goes no further than its signature.
    const { status, detail } = await post(address, small);
    expect([
      [401, 'the encryption key is not signed by the host key'],
      [403, 'The key of the other host is not a good one.'],
    ]).toContainEqual([status, detail]);
    expect(await namesOf(here)).toEqual(['there']);
  });

  test('is told nothing good by an inviter without the secret, and pins nobody', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code } = await inviteAt(here);
    const { hostName } = here.context.identity();
    const port = await listening((url, _body, answer) => {
      const hello = { host: hostName, pubkey: keyOf(here), version: '0', now: 0 };
      const mac = Buffer.alloc(32).toString('base64');
      const word = { host: hostName, pubkey: keyOf(here), enc_key: encKeyDocument(here.context.identity()), mac };
      answer(url === '/v1/lan/hello' ? hello : word);
    });
    const refused = await there.lan.accept({ code, address: `127.0.0.1:${port}` });
    expect(refused).toMatchObject({ code: 'PAIRING_REFUSED', message: expect.stringContaining('did not prove') });
    expect(await namesOf(there)).toEqual([]);
  });

  test.each<[what: string, changed: 'request' | 'answer', changes: object]>([
    ['its name in the request', 'request', { host: 'mallory' }],
    ['its address in the request', 'request', { address: '127.0.0.66:6666' }],
    ['its port in the request', 'request', { port: 6666 }],
    ['the name in the answer', 'answer', { host: 'mallory' }],
    ['an address in the answer', 'answer', { address: '127.0.0.66:6666' }],
    ['the port in the answer', 'answer', { port: 6666 }],
    ['a member more in the answer', 'answer', { note: 'trust me' }],
  ])('pins nobody when somebody between them changes %s', async (_what, changed, changes) => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here, there);
    const port = await listening(async (url, body, answer) => {
      const asked = body === '' || changed === 'answer' ? body : JSON.stringify({ ...JSON.parse(body), ...changes });
      const response = await fetch(`http://${address}${url}`, asked === '' ? {} : { method: 'POST', body: asked });
      const said = (await response.json()) as object;
      answer(url === '/v1/lan/pair' && changed === 'answer' ? { ...said, ...changes } : said, response.status);
    });
    expect(await there.lan.accept({ code, address: `127.0.0.1:${port}` })).toMatchObject({ code: 'PAIRING_REFUSED' });
    expect(await namesOf(there)).toEqual([]);
    // The inviter pins what the acceptor said, to the word, or nobody.
    expect(await namesOf(here)).toEqual(changed === 'request' ? [] : ['there']);
  });
});

/** A server that answers every request by `reply`; its port. */
async function listening(
  reply: (url: string, body: string, answer: (document: object, status?: number) => void) => void | Promise<void>,
): Promise<number> {
  const server = createServer((request: IncomingMessage, response) => {
    void text(request).then((body) =>
      reply(request.url ?? '', body, (document, status = 200) => {
        response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
        response.end(JSON.stringify(document));
      }),
    );
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

describe('what was paired', () => {
  test('in one half, as an answer was lost, is whole with the same code, and later with a new one', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    const { code, address } = await inviteAt(here, there);
    // The inviter pins, and nobody hears its answer.
    await post(address, wordOf(there, here, code));
    expect([await namesOf(here), await namesOf(there)]).toEqual([['there'], []]);
    here.clock.aheadMs = 600_000;
    expect(await there.lan.accept({ code, address })).toMatchObject({ code: 'PAIRING_REFUSED' });
    const again = await inviteAt(here, there);
    await post(again.address, wordOf(there, here, again.code));
    expect(await there.lan.accept(again)).toMatchObject({ host: 'here' });
    expect([await namesOf(here), await namesOf(there)]).toEqual([['there'], ['here']]);
    const [peer] = (await listPeers(here.context)).peers;
    expect(peer).toMatchObject({ address: `127.0.0.1:${there.lan.port}` });
  });

  test('and let go can be paired again, its name given to another in between', async () => {
    const [here, bob, carl] = [await openLanHost('here'), await openLanHost('bob'), await openLanHost('BOB')];
    await pair(here, bob);
    expect(await unpair(here.context, 'bob')).toMatchObject({ host: 'bob' });
    await pair(here, carl);
    // The first bob comes back under another name.
    const { code, address } = await inviteAt(here, bob);
    expect(await post(address, wordOf(bob, here, code, { host: 'bob2' }))).toMatchObject({
      status: 200,
    });
    expect((await namesOf(here)).toSorted()).toEqual(['BOB', 'bob2']);
    expect(await unpair(here.context, 'bob')).toMatchObject({ host_pubkey: keyOf(carl) });
    expect(await unpair(here.context, 'bob')).toMatchObject({ code: 'NO_SUCH_PEER' });
  });

  test('under an old key is refused: another key and another pairing are needed', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    await pair(here, there);
    const { signer, sealKey } = there.context.identity();
    const encKey = encKeyDocument({ hostName: there.context.identity().hostName, signer, sealKey });
    const { host_pubkey: newKey } = await rotateOwnKey(there.context);
    await until(here, async () => (await listPeers(here.context)).peers.find((peer) => peer.host_pubkey === newKey));
    const { code, address } = await inviteAt(here);
    const word = wordOf(there, here, code, { pubkey: signer.publicKey, enc_key: encKey });
    expect(await post(address, word)).toMatchObject({
      status: 403,
      detail: expect.stringContaining('rotate-key'),
    });
  });
});

test('nothing listens while no host is paired and no invitation is open', async () => {
  const [here, there] = [await openLanHost('here'), await openLanHost('there')];
  expect([here.lan.port, there.lan.port]).toEqual([undefined, undefined]);
  await pair(here, there);
  expect(here.lan.port).toBeGreaterThan(0);
  expect(there.lan.port).toBeGreaterThan(0);
  await unpair(here.context, 'there');
  await until(here, async () => (here.lan.port === undefined ? true : undefined));
});

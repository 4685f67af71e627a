/** Two hosts on a LAN, each with its store and its listener on loopback: paired, sending, going on under new keys. */
import { expect, test } from 'vitest';
import { isRefusal } from '../../../src/host/core/refusal.ts';
import { listPeers } from '../../../src/host/office/peers.ts';
import { type LanHost, openLanHost } from '../../support/lan-hosts.ts';

async function paired(): Promise<[here: LanHost, there: LanHost]> {
  const here = await openLanHost('here');
  const there = await openLanHost('there');
  const invited = await here.lan.invite();
  if (isRefusal(invited)) throw new Error(invited.message);
  const accepted = await there.lan.accept({ code: invited.code, address: `127.0.0.1:${here.lan.port}` });
  expect(accepted).toMatchObject({ host: 'here' });
  return [here, there];
}

test('a code pairs two hosts: each pins the other and knows where it listens', async () => {
  const [here, there] = await paired();
  expect((await listPeers(here.office)).peers).toMatchObject([
    { host: 'there', host_pubkey: there.office.identity().signer.publicKey, address: `127.0.0.1:${there.lan.port}` },
  ]);
  expect((await listPeers(there.office)).peers).toMatchObject([
    { host: 'here', host_pubkey: here.office.identity().signer.publicKey, address: `127.0.0.1:${here.lan.port}` },
  ]);
});

test('nothing listens while no host is paired and no invitation is open', async () => {
  const here = await openLanHost('here');
  expect(here.lan.port).toBeUndefined();
  await here.lan.invite();
  expect(here.lan.port).toBeGreaterThan(0);
});

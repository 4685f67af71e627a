/**
 * Tests whose socket is spoken to, by the numbers of users and the modes of folders; and that nothing is sent
 * otherwise.
 */
import { chmod, lchown, symlink } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ControlClient } from '../../../src/cli/relay/control-client.ts';
import { DaemonClient } from '../../../src/host/api/client.ts';
import { controlSocketPath } from '../../../src/relay/operator/socket.ts';
import { type FileOwner, ownerFault } from '../../../src/lib/socket-request.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const ME = { uid: 1000, gid: 1000 };
const ROOT = { uid: 0, gid: 0 };

function owned(uid: number, mode = 0o700, gid = uid): FileOwner {
  return { uid, gid, mode };
}

test.each([
  ['my own, in my folder', owned(1000), owned(1000), ME, /^none$/],
  ["the superuser's, in the superuser's folder", owned(0), owned(0, 0o755), ME, /^none$/],
  ["another's", owned(1001), owned(1000), ME, /belongs to the user with the number 1001/],
  ["my own, in another's folder", owned(1000), owned(1001), ME, /folder .* belongs to the user with the number 1001/],
  ['in a folder that everybody may write', owned(1000), owned(1000, 0o777), ME, /can be written by other users/],
  ['in a sticky folder', owned(1000), owned(0, 0o1777), ME, /^none$/],
  ["another's in a sticky folder", owned(1001), owned(0, 0o1777), ME, /1001/],
  ['in a folder that my own group may write', owned(1000), owned(1000, 0o770), ME, /^none$/],
  ['in a folder that another group may write', owned(1000), owned(1000, 0o770, 50), ME, /chmod go-w \/f /],
  ['a service user’s, asked by the superuser', owned(990), owned(990), ROOT, /^none$/],
  ['another’s in the folder of a service user, asked by the superuser', owned(991), owned(990), ROOT, /991/],
] as const)('%s', (_what, socket, folder, user, fault) => {
  const found = ownerFault('/f/daemon.sock', { socket, folder }, user);
  expect(found ?? 'none').toMatch(fault);
});

/** A program that answers at a socket, and what it was sent. */
async function impostor(): Promise<{ folder: string; path: string; heard: () => string }> {
  const folder = await temporaryFolder();
  const path = controlSocketPath(folder);
  let heard = '';
  const server = createServer((socket) => {
    socket.on('data', (chunk: Buffer) => {
      heard += chunk.toString();
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}');
    });
    socket.on('error', () => undefined);
  });
  server.listen(path);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { folder, path, heard: () => heard };
}

test('nothing is sent to a socket in a folder that others can write, by commands or tools of either side', async () => {
  const { folder, path, heard } = await impostor();
  const daemon = new DaemonClient(path, join(folder, 'store'));
  expect(await daemon.call('status', {})).toEqual({});
  const before = heard();
  expect(before).toContain('POST ');
  await chmod(folder, 0o777);
  await expect(daemon.call('status', {})).rejects.toMatchObject({
    code: 'SOCKET_NOT_TRUSTED',
    message: expect.stringContaining(`chmod go-w ${folder}`) as string,
  });
  await expect(new ControlClient(folder).get('/v1/hosts')).rejects.toMatchObject({
    exit: 'refused',
    code: 'SOCKET_NOT_TRUSTED',
  });
  expect(heard()).toBe(before);
});

test.runIf(process.getuid?.() === 0)('nothing is sent to a socket of another user', async () => {
  const { folder, path, heard } = await impostor();
  await lchown(path, 12_345, 12_345);
  await expect(new DaemonClient(path, folder).call('status', {})).rejects.toMatchObject({ code: 'SOCKET_NOT_TRUSTED' });
  expect(heard()).toBe('');
});

test('a symbolic link is as good as its own folder and that of the socket behind it', async () => {
  const { folder, path, heard } = await impostor();
  const links = await temporaryFolder();
  const link = join(links, 'daemon.sock');
  await symlink(path, link);
  const daemon = new DaemonClient(link, links);
  expect(await daemon.call('status', {})).toEqual({});
  const before = heard();
  await chmod(links, 0o777);
  await expect(daemon.call('status', {})).rejects.toMatchObject({ code: 'SOCKET_NOT_TRUSTED' });
  await chmod(links, 0o700);
  await chmod(folder, 0o777);
  await expect(daemon.call('status', {})).rejects.toMatchObject({ code: 'SOCKET_NOT_TRUSTED' });
  expect(heard()).toBe(before);
});

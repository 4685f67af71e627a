/** `poste relay hosts`, `revoke`, `admit` and `console` against a running relay. */
import { chmod, mkdir, stat } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { alice, bob, carol, hostNamed } from '../../../support/hosts.ts';
import { itemTo } from '../../../support/mail.ts';
import { type RelayHere, relayHere, runHere } from '../../../support/command-run.ts';
import type { Ended } from '../../../support/poste-process.ts';
import { EXIT, clientOf, sentenceOf } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

interface Running {
  relay: RelayHere;
  storeDir: string;
  /** `poste relay <args> --store-dir <its own>`. */
  command: (...args: string[]) => Promise<Ended>;
}

async function running(...args: string[]): Promise<Running> {
  const storeDir = await temporaryFolder();
  const relay = await relayHere(storeDir, args);
  return { relay, storeDir, command: (...words) => runHere(['relay', ...words, '--store-dir', storeDir]) };
}

describe('relay hosts', () => {
  test('is a table of who is in, chosen by name and state, or one JSON document', async () => {
    const { relay, command } = await running();
    expect(await command('hosts')).toEqual(endedWith(EXIT.ok, '', 'No host has enrolled yet.\n'));
    for (const host of [bob, alice, carol]) await clientOf(relay, host).enrol();
    await clientOf(relay, alice).push([itemTo([bob], 'm1')]);
    await command('revoke', '--yes', 'carol');

    const table = await command('hosts');
    expect(table).toMatchObject({ code: EXIT.ok, stderr: '' });
    const [titles = '', ...lines] = table.stdout.trimEnd().split('\n');
    expect(titles.split(/ +/).slice(0, 4)).toEqual(['NAME', 'FINGERPRINT', 'ACCOUNT', 'AUTHORITY']);
    expect(lines.map((line) => line.split(/ +/).slice(0, 2))).toEqual([
      ['alice', displayFingerprint(alice.key)],
      ['bob', displayFingerprint(bob.key)],
    ]);
    expect(lines[1]).toMatch(/ live +1 +[1-9][0-9]* +0$/);

    const names = async (...args: string[]): Promise<unknown> => {
      const { stdout, stderr, code } = await command('hosts', '--json', ...args);
      expect([code, stderr]).toEqual([EXIT.ok, '']);
      return (JSON.parse(stdout) as { hosts: { host: string; state: string }[] }).hosts.map(
        ({ host, state }) => `${host} ${state}`,
      );
    };
    expect(await names()).toEqual(['alice live', 'bob live']);
    expect(await names('--live', '--name', 'B*')).toEqual(['bob live']);
    expect(await names('--revoked')).toEqual(['carol revoked']);
    expect(await names('--all')).toEqual(['alice live', 'bob live', 'carol revoked']);
    expect(await names('--account', 'acme')).toEqual([]);
    expect(await command('hosts', '--name', 'x*')).toEqual(endedWith(EXIT.ok, '', 'No host matches.\n'));
  });
});

describe('relay revoke', () => {
  test('ends what the host may do, for good, whatever it is in the middle of', async () => {
    const { relay, command } = await running();
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    const waiting = clientOf(relay, bob)
      .pull({ wait: 30 })
      .catch((error: unknown) => error);
    await clientOf(relay, bob).ownInfo();
    expect(await command('revoke', '--yes', displayFingerprint(bob.key))).toEqual(
      endedWith(EXIT.ok, `Revoked bob (${displayFingerprint(bob.key)}), for good.\n`, ''),
    );
    expect(await waiting).toMatchObject({ status: 401, code: 'NOT_ENROLLED' });
    await expect(clientOf(relay, bob).pull()).rejects.toMatchObject({ status: 401, code: 'NOT_ENROLLED' });
    await expect(clientOf(relay, bob).enrol()).rejects.toMatchObject({ status: 403, code: 'ENROL_REFUSED' });
    const { results } = await clientOf(relay, alice).push([itemTo([bob], 'm1')]);
    expect(results).toMatchObject([{ status: 'rejected:target revoked' }]);
    const again = await command('revoke', '--yes', bob.key);
    expect(again).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(again.stdout).toContain('was revoked before; nothing has changed');
  });

  test('says how much waits for the host, and with --json shows what it has become', async () => {
    const { relay, command } = await running();
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    await clientOf(relay, alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
    expect((await command('revoke', 'bob', '--yes')).stdout).toContain('What waits for it (2 items) expires in time.');
    const { stdout } = await command('revoke', 'alice', '--yes', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ host: { host: 'alice', state: 'revoked' }, is_new: true });
  });

  test('a name of two hosts is a conflict, which lists them; of none, not found', async () => {
    const { relay, command } = await running();
    const twin = { ...hostNamed('twin'), name: alice.name };
    for (const host of [alice, twin]) await clientOf(relay, host).enrol();
    const fingerprints = [alice, twin].map(({ key }) => displayFingerprint(key)).toSorted();
    const ambiguous = await command('revoke', 'alice', '--yes');
    expect(ambiguous.code).toBe(EXIT.conflict);
    expect(sentenceOf(ambiguous)).toContain(fingerprints.join(', '));
    const asJson = await command('revoke', 'alice', '--yes', '--json');
    expect(asJson).toMatchObject({ code: EXIT.conflict, stdout: '' });
    expect(JSON.parse(asJson.stderr)).toMatchObject({ code: 'AMBIGUOUS_HOST', details: { fingerprints } });
    const unknown = await command('revoke', 'nobody', '--yes');
    expect(unknown.code).toBe(EXIT.notFound);
    expect(sentenceOf(unknown)).not.toContain('did you mean');
    const misspelt = await command('revoke', 'alicee', '--yes');
    expect(misspelt.code).toBe(EXIT.notFound);
    expect(sentenceOf(misspelt)).toContain('(did you mean alice?)');
    expect(sentenceOf(unknown)).toContain('no host carries this name');
    expect((await command('hosts', '--json')).stdout.match(/"live"/g)).toHaveLength(2);
  });

  test('takes the first characters of a fingerprint, and none that are of nobody', async () => {
    const { relay, command } = await running();
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    const start = displayFingerprint(bob.key).slice(0, 'SHA256:'.length + 4);
    const unknown = await command('revoke', '--yes', 'SHA256:0000');
    expect(unknown.code).toBe(EXIT.notFound);
    expect(sentenceOf(unknown)).toContain('no host is known whose fingerprint begins with SHA256:0000');
    expect((await command('revoke', '--yes', start)).stdout).toContain(`Revoked bob (${displayFingerprint(bob.key)})`);
    expect((await command('hosts', '--json')).stdout.match(/"live"/g)).toHaveLength(1);
  });

  test('without a terminal it asks nobody and does nothing, unless --yes is said', async () => {
    const { relay, command } = await running();
    await clientOf(relay, alice).enrol();
    const ended = await command('revoke', 'alice');
    expect(ended.code).toBe(EXIT.usage);
    expect(sentenceOf(ended)).toContain('add --yes');
    expect((await clientOf(relay, alice).ownInfo()).you).toMatchObject({ host: 'alice' });
  });
});

describe('relay console', () => {
  test('of a relay without an operator listener is a conflict, in one sentence', async () => {
    const { command } = await running();
    const ended = await command('console');
    expect(ended.code).toBe(EXIT.conflict);
    expect(sentenceOf(ended)).toContain('start it without --admin-listen off');
  });
});

describe('relay admit', () => {
  test('prints a token and nothing else, which lets one host in', async () => {
    const { relay, command } = await running('--admission', 'invite');
    await expect(clientOf(relay, alice).enrol()).rejects.toMatchObject({ status: 403, code: 'ENROL_REFUSED' });
    const admitted = await command('admit', '--label', "Ada's laptop", '--expires', '12h');
    expect(admitted.code).toBe(EXIT.ok);
    expect(admitted.stdout).toMatch(/^poste-invite-[A-Za-z0-9_-]{43}\n$/);
    expect(admitted.stderr).toMatch(/^The token admits one host until [0-9-]+T[0-9:.]+Z\. It is not shown again\.\n$/);
    const token = admitted.stdout.trim();
    expect((await command('admit', '--list')).stdout).toMatch(/^ISSUED +EXPIRES +LABEL\n.* {2}Ada's laptop\n$/);
    expect(await clientOf(relay, alice).enrol('', token)).toMatchObject({ host: 'alice' });
    await expect(clientOf(relay, bob).enrol('', token)).rejects.toMatchObject({ status: 403, code: 'ENROL_REFUSED' });
    expect(await clientOf(relay, alice).enrol()).toMatchObject({ host: 'alice' });
    expect(await command('admit', '--list')).toEqual(endedWith(EXIT.ok, '', 'No invite is open.\n'));
    expect(relay.process.stderr + relay.process.stdout).not.toContain(token);
  });

  test('--json is one document, and an open relay says that it is open', async () => {
    const { command } = await running();
    const asJson = await command('admit', '--json');
    expect(asJson).toMatchObject({ code: EXIT.ok, stderr: '' });
    const invite = JSON.parse(asJson.stdout) as { issued_at: string; expires_at: string };
    expect(invite).toMatchObject({ label: '', admission: 'open' });
    expect(Date.parse(invite.expires_at) - Date.parse(invite.issued_at)).toBe(7 * 86_400_000);
    const { stderr, stdout } = await command('admit');
    expect(stdout).toMatch(/^poste-invite-[A-Za-z0-9_-]{43}\n$/);
    expect(stderr).toContain('serves with --admission open');
    const list = await command('admit', '--list', '--json');
    expect((JSON.parse(list.stdout) as { invites: object[] }).invites).toHaveLength(2);
  });
});

describe('what goes wrong is one sentence and an exit code', () => {
  const COMMANDS = [['hosts'], ['revoke', 'a', '--yes'], ['admit'], ['admit', '--list']];

  test.each(COMMANDS)('relay %s %s says when no relay runs, or there is no store', async (...args) => {
    const storeDir = await temporaryFolder();
    const words = args.filter((word) => word !== undefined);
    const idle = await runHere(['relay', ...words, '--store-dir', storeDir]);
    expect(idle.code).toBe(EXIT.failure);
    expect(sentenceOf(idle)).toContain(`start it with poste relay serve --store-dir ${storeDir}`);
    const none = await runHere(['relay', ...words, '--store-dir', join(storeDir, 'none'), '--json']);
    expect(none).toMatchObject({ code: EXIT.notFound, stdout: '' });
    expect(JSON.parse(none.stderr)).toMatchObject({ code: 'NO_STORE', details: {} });
  });

  test('a folder whose path is too long for a socket: the relay serves and warns, the commands say why', async () => {
    const storeDir = join(await temporaryFolder(), 'x'.repeat(110));
    const relay = await relayHere(storeDir);
    expect(relay.start.notices).toEqual([expect.stringContaining('a symbolic link will do') as string]);
    expect(relay.process.stderr).toContain('Local commands such as poste relay hosts cannot reach this relay');
    await clientOf(relay, alice).enrol();
    const ended = await runHere(['relay', 'hosts', '--store-dir', storeDir]);
    expect(ended.code).toBe(EXIT.failure);
    expect(sentenceOf(ended)).toMatch(/control\.sock, has [0-9]+ bytes .* shorter path with --store-dir/);
  });
});

describe('the socket', () => {
  test('is of its owner alone also in a folder that is open to others, and gone after a stop', async () => {
    const storeDir = join(await temporaryFolder(), 'store');
    await mkdir(storeDir);
    await chmod(storeDir, 0o777);
    const relay = await relayHere(storeDir);
    const path = join(storeDir, 'control.sock');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    relay.process.signal('SIGTERM');
    expect(await relay.process.ended()).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(existsSync(path)).toBe(false);
  });
});

function endedWith(code: number, stdout: string, stderr: string): Ended {
  return { code, signal: null, stdout, stderr };
}

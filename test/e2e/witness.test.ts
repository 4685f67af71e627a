/** A witness as a process of its own: what it answers over HTTP, and that it never cosigns two histories. */
import { hash } from 'node:crypto';
import { cp, rm, writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { signCheckpoint } from '../../src/protocol/checkpoint.ts';
import { addCheckpointBody, openCosignature, parseWitnessKey } from '../../src/protocol/cosignature.ts';
import { consistencyProof, leafHash, perfectHash, rootHash, type HashReader } from '../../src/protocol/merkle.ts';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import { epochNumbered } from '../support/epochs.ts';
import { alice, relay } from '../support/hosts.ts';
import { poste, type PosteProcess, type ProcessOptions, relayProcess } from '../support/poste-process.ts';
import { clientOf, stopped } from '../support/relay-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

interface StartedWitness {
  process: PosteProcess;
  url: string;
  key: string;
}

async function witnessProcess(folder: string, options: ProcessOptions = {}): Promise<StartedWitness> {
  const args = ['--store-dir', folder, '--relay-key', relay.key, '--listen', '127.0.0.1:0', '--name', 'w.example'];
  const started = poste(['relay', 'witness', ...args, '--json'], {}, options);
  await started.printed('}\n');
  const { url, witness_key: key } = JSON.parse(started.stdout) as { url: string; witness_key: string };
  return { process: started, url, key };
}

/** A log of numbered leaves; from leaf `forkAt` on they are of another history. */
function readerOf(forkAt = Number.POSITIVE_INFINITY): HashReader {
  return (level, index) => {
    const leaves = Array.from({ length: 2 ** level }, (_, nth) => {
      const at = index * 2 ** level + nth;
      return leafHash(Buffer.from(`${at}${at >= forkAt ? ' forked' : ''}`));
    });
    return perfectHash(Buffer.concat(leaves));
  };
}

function bodyOf(old: number, size: number, read = readerOf()): { note: string; body: string } {
  const note = signCheckpoint({ epoch: epochNumbered(1), size, rootHash: rootHash(size, read) }, relay.signer);
  return { note, body: addCheckpointBody({ old, proof: old === 0 ? [] : consistencyProof(old, size, read), note }) };
}

async function add(url: string, old: number, size: number, read?: HashReader) {
  const { note, body } = bodyOf(old, size, read);
  const answer = await fetch(`${url}/add-checkpoint`, { method: 'POST', body });
  return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text(), note };
}

describe('poste relay witness', () => {
  test('answers as c2sp.org/tlog-witness says, and shows what it knows', async () => {
    const { url, key, process } = await witnessProcess(await temporaryFolder());
    const first = await add(url, 0, 5);
    expect(first.status).toBe(200);
    expect(openCosignature(`${first.note}${first.text}`, parseWitnessKey(key)!)).toBeDefined();
    expect(await add(url, 0, 5)).toMatchObject({ status: 409, type: 'text/x.tlog.size', text: '5\n' });
    expect((await add(url, 5, 9)).status).toBe(200);
    expect((await add(url, 9, 9, readerOf(7))).status).toBe(422);
    expect((await add(url, 9, 12, readerOf(7))).status).toBe(422);
    const post = async (path: string, body: string) => (await fetch(`${url}${path}`, { method: 'POST', body })).status;
    expect(await post('/add-checkpoint', 'nothing')).toBe(400);
    expect(await post('/add-checkpoint', bodyOf(0, 5).body.replace(/poste\/../, 'poste/xx'))).toBe(404);
    expect(await post('/add-checkpoint', bodyOf(0, 5).body.replace('\n5\n', '\n6\n'))).toBe(403);
    expect(await post('/add-epoch', '{}')).toBe(404);
    expect(await post('/add-epoch', '{')).toBe(400);
    const shown = await fetch(`${url}/log/${hostFingerprint(relay.key)}`);
    expect(await shown.json()).toMatchObject({
      relay_pubkey: relay.key,
      epochs: [{ epoch: epochNumbered(1), checkpoint: bodyOf(5, 9).note, link: null }],
    });
    for (const path of ['/log', `/log/${'0'.repeat(64)}`]) expect((await fetch(`${url}${path}`)).status).toBe(404);
    process.signal('SIGTERM');
    expect(await process.ended()).toMatchObject({ code: 0 });
    expect(process.stderr).toContain('signed two histories');
  });

  test('cosigns for a relay that names it, which learns from it that its store was put back', async () => {
    const { url, key } = await witnessProcess(await temporaryFolder());
    const storeDir = await temporaryFolder();
    await writeFile(`${storeDir}/relay.key`, hash('sha256', relay.name, 'base64'), { mode: 0o600 });
    const alone = ['--position-file', `${storeDir}/position`];
    const witnessed = [...alone, '--witness', url, '--witness-key', key];
    const first = await relayProcess(storeDir, witnessed);
    const cosigned = await (await fetch(`${first.start.url}/v2/relay/log/checkpoint?cosigned=1`)).text();
    expect(openCosignature(cosigned, parseWitnessKey(key)!)).toBeDefined();
    if (!IS_THOROUGH) return;
    await stopped(first);
    const copy = `${await temporaryFolder()}/copy`;
    await cp(storeDir, copy, { recursive: true });
    const second = await relayProcess(storeDir, alone);
    await clientOf(second, alice).enrol();
    await stopped(second);
    const third = await relayProcess(storeDir, witnessed);
    expect([second.start.epoch, third.start.epoch]).toEqual([first.start.epoch, first.start.epoch]);
    await stopped(third);
    await rm(storeDir, { recursive: true });
    await cp(copy, storeDir, { recursive: true });
    const back = await relayProcess(storeDir, witnessed);
    expect(back.start.epoch).not.toBe(first.start.epoch);
    expect(back.process.stderr).toContain('a new epoch begins');
  });

  test.runIf(IS_THOROUGH)('knows after kill -9 all that it answered', async () => {
    const folder = await temporaryFolder();
    const first = await witnessProcess(folder);
    let known = 0;
    const posted = (async () => {
      for (let size = 1; ; size++) {
        if ((await add(first.url, size - 1, size)).status !== 200) return;
        known = size;
        if (known === 5) void first.process.kill();
      }
    })();
    await posted.catch(() => undefined);
    await first.process.kill();
    const { url, key } = await witnessProcess(folder);
    expect(key).toBe(first.key);
    const told = Number((await add(url, 0, 1000)).text);
    expect([known, known + 1]).toContain(told);
    expect(known).toBeGreaterThanOrEqual(5);
  });

  test.runIf(IS_THOROUGH)('cosigns nothing more on a full disk, ends, and goes on from what it had', async () => {
    const folder = await temporaryFolder();
    await (await witnessProcess(folder)).process.kill();
    // No file may become longer than 16 blocks: the log of LevelDB soon is.
    const under = ['/bin/sh', '-c', `trap '' XFSZ; ulimit -f 16; exec "$0" "$@"`];
    const full = await witnessProcess(folder, { under });
    let known = 0;
    let status = 200;
    while (status === 200) {
      ({ status } = await add(full.url, known, known + 1));
      if (status === 200) known++;
    }
    expect(status).toBe(503);
    const ended = await full.process.ended();
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('STORE_FAILED');
    expect(known).toBeGreaterThan(0);
    const { url } = await witnessProcess(folder);
    expect((await add(url, 0, 1000)).text).toBe(`${known}\n`);
    expect((await add(url, known, known + 1, readerOf(known - 1))).status).toBe(422);
    expect((await add(url, known, known + 1)).status).toBe(200);
  });

  test.runIf(IS_THOROUGH)('is refused without a relay, and beside another on one folder', async () => {
    const folder = await temporaryFolder();
    const without = await poste(['relay', 'witness', '--store-dir', folder]).ended();
    expect(without.code).toBe(2);
    await witnessProcess(folder);
    const beside = await poste(['relay', 'witness', '--store-dir', folder, '--relay-key', relay.key]).ended();
    expect([beside.code, beside.stderr]).toEqual([4, expect.stringContaining('another witness is using')]);
  });
});

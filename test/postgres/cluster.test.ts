/** `npm run cluster` by script, on real servers: nothing is lost or doubled, and nothing is left behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { blocksOf, commandsOf, docPage } from '../support/doc-pages.ts';
import { isGone } from '../support/process-tree.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

/** Programs start slowly on a busy machine, and the script waits for many. */
const TIMEOUT_MS = 300_000;

const CLUSTER = fileURLToPath(new URL('../../scripts/cluster.ts', import.meta.url));
/** That of the page, and what else may happen. */
const SHOWN = blocksOf(docPage('docs/cluster.md'))
  .flatMap(commandsOf)
  .flatMap(({ text }) => /^npm run cluster -- --script '(.*)'$/.exec(text)?.[1] ?? []);
const SCRIPT = [
  ...SHOWN,
  'kill proxy; start proxy; accepted 5',
  'cut; wait 1; join; accepted 5',
  'pause leader; accepted 5; continue all; accepted 5',
  'stop primary; start all; accepted 5',
].join('; ');

// It costs a minute.
test.runIf(IS_THOROUGH)(
  'a script that ends everything once loses nothing and leaves nothing',
  async (context) => {
    expect(SHOWN).toHaveLength(1);
    const postgres = neededProgram(context, POSTGRES);
    const folder = await temporaryFolder();
    // PostgreSQL runs as another user where this is root's.
    chmodSync(folder, 0o711);
    const args = ['--import', 'tsx', CLUSTER, '--lease-seconds', '1', '--script', SCRIPT];
    const env = { ...process.env, TMPDIR: folder, [POSTGRES.variable]: postgres };
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += String(text)));
    const closed = once(child, 'close');
    atTestEnd(async () => {
      child.kill('SIGTERM');
      await closed;
    });
    const [code] = (await closed) as [number | null];
    expect(said).toMatch(/accepted \d+, arrived \d+, confirmed \d+, waiting 0, lost 0, doubled 0\n/);
    expect(said).not.toContain('wrong:');
    expect({ code, said: code === 0 ? '' : said }).toEqual({ code: 0, said: '' });
    const pids = [...said.matchAll(/runs as process (\d+) at 127\.0\.0\.1:/g)].map(([, pid]) => Number(pid));
    expect(pids).toHaveLength(5);
    expect(pids.filter((pid) => !isGone(pid))).toEqual([]);
    expect(readdirSync(folder).filter((name) => name.startsWith('poste-'))).toEqual([]);
  },
  TIMEOUT_MS,
);

/**
 * `npm run check`: format, lint and types of everything, side by side. oxlint also tells what the compiler would: its
 * types are those of the compiler, and a second program would infer all of them once more. Further commands may be
 * given.
 */
import { spawn } from 'node:child_process';

const CHECKS = ['oxlint --type-aware --type-check', 'biome format .', ...process.argv.slice(2)];

/** oxlint's types are written in Go, which by itself collects garbage whenever the heap has doubled. */
const env = { GOGC: '400', ...process.env };

/** Says whether it passed. What it printed is printed in one piece, since others run beside it. */
async function passes(command: string): Promise<boolean> {
  const child = spawn(command, { shell: true, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const printed: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => printed.push(chunk));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  process.stdout.write(Buffer.concat(printed));
  if (code !== 0) console.error(`${command} failed.`);
  return code === 0;
}

const passed = await Promise.all(CHECKS.map(passes));
process.exitCode = passed.every(Boolean) ? 0 : 1;

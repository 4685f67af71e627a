/** `npm run check`: format, lint and types of everything, side by side, those that take longest first. */
import { spawn } from 'node:child_process';

/** With one checker: each further one infers types again that another one knows. */
const TSC = 'tsc --checkers 1 -p';
const CHECKS = [`${TSC} tsconfig.json`, 'oxlint --type-aware', `${TSC} src/web/tsconfig.json`, 'biome format .'];

/** tsc and oxlint's types are written in Go, which by itself collects garbage whenever the heap has doubled. */
const env = { GOGC: '400', ...process.env };

/** Whether it passed. What it printed is printed in one piece, since others run beside it. */
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

/**
 * `npm run cluster`: one relay on two machines, to try: a PostgreSQL primary, a synchronous standby, two relays, a
 * proxy and two hosts that write to each other, on loopback and in a temporary folder. Kill what you like.
 * docs/cluster.md.
 *
 *     npm run cluster                                          in a terminal: a screen and keys; else line by line
 *     npm run cluster -- --script 'kill leader; accepted 10'   does that, says what became of the mail, and ends
 *     npm run cluster -- --seconds 30                          ends after that time
 *     npm run cluster -- --lease-seconds 2                     another lease
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { POSTGRES, findProgram } from '../test/support/programs.ts';
import { showLive } from './cluster/live.ts';
import { type Happened, happenedLine, summaryLines } from './cluster/screen.ts';
import { STEPS_HELP, parseScript, runScript, settled } from './cluster/script.ts';
import { ClusterWorld } from './cluster/world.ts';
import { parsedArguments } from './parsed-arguments.ts';

const HELP = `npm run cluster [-- options]
  --script <steps>      does the steps, and ends. ${STEPS_HELP}
  --seconds <n>         ends after that time
  --lease-seconds <n>   how long the leader shows no sign of life before another may lead (6)`;

async function main(): Promise<void> {
  const { values } = parsedArguments({
    options: {
      script: { type: 'string' },
      seconds: { type: 'string' },
      'lease-seconds': { type: 'string', default: '6' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const waits = values.seconds === undefined ? [] : [`wait ${values.seconds}`];
  const script = [values.script, ...waits].filter((part) => part !== undefined).join('; ');
  const steps = parseScript(script);
  const leaseSeconds = Number(values['lease-seconds']);
  if (!Number.isSafeInteger(leaseSeconds) || leaseSeconds < 1) throw new Error('--lease-seconds takes whole seconds');
  const postgres = findProgram(POSTGRES);
  if (postgres === undefined)
    throw new Error(
      `the cluster needs ${POSTGRES.title}: ${POSTGRES.install}, or name its file in ${POSTGRES.variable}`,
    );

  const isLive = script === '' && process.stdin.isTTY && process.stdout.isTTY;
  const happened: Happened[] = [];
  const ending = new AbortController();
  const end = (): void => ending.abort();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, end);
  const say = (what: string): void => {
    if (ending.signal.aborted) return;
    const one = { at: new Date(), what };
    happened.push(one);
    if (!isLive) console.log(happenedLine(one));
  };

  console.log('Starting two PostgreSQL servers, two relays, a proxy and two hosts: a few seconds ...');
  const world = await ClusterWorld.start({ postgres, leaseSeconds, say });
  try {
    for (const { name, pid, port } of world.members) say(`${name} runs as process ${pid} at 127.0.0.1:${port}`);
    if (isLive) {
      const isPlain = (process.env['NO_COLOR'] ?? '') !== '';
      await showLive({ world, happened, signal: ending.signal, isPlain, end });
    } else if (script === '') await untilEnd(world, ending.signal);
    else {
      await runScript(world, steps, ending.signal);
      await settled(world, ending.signal);
    }
  } catch (error) {
    if (!ending.signal.aborted) {
      console.error((error as Error).message);
      process.exitCode = 1;
    }
  } finally {
    ending.abort();
    const isEnough = script === '' || world.load.ledger.isClean;
    const { lost, doubled } = world.load.ledger.counts;
    const isWrong = lost + doubled + world.load.ledger.faults.length > 0;
    if (!isEnough || isWrong) process.exitCode = 1;
    console.log(summaryLines(world).join('\n'));
    await world.end();
    console.log('Everything was ended, and its folder removed.');
  }
}

/** Line by line: how it stands, every few seconds. */
async function untilEnd(world: ClusterWorld, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await elapsed(5_000, undefined, { signal }).catch(() => undefined);
    console.log(summaryLines(world)[0]);
  }
}

try {
  await main();
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}

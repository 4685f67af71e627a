/**
 * A room of its own for the programs: namespaces of network, processes and mounts. The network is loopback alone,
 * /run is empty, so that no socket of the user can be reached, and with the first process of the room everything ends
 * that was started in it.
 */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';

/** Marks the process that runs inside. */
export const INSIDE = 'POSTE_PROGRAMS_INSIDE';

/** The shell stays the first process of the room: it reaps what its children leave behind. */
const ENTER = [
  'ip link set lo up || exit 70',
  'mount -t tmpfs poste /run || exit 70',
  'mkdir -p /run/user/0 && chmod 700 /run/user/0 || exit 70',
  '"$@"',
  'exit $?',
].join('\n');

function roomFlags(): string[] {
  const user = process.getuid?.() === 0 ? [] : ['--map-root-user'];
  return [...user, '--net', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child'];
}

/** Says why there can be no such room on this machine, or undefined. */
export function roomFault(): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces are a thing of Linux';
  const { status, stderr, error } = spawnSync('unshare', [...roomFlags(), 'sh', '-c', ENTER, 'sh', 'true'], {
    encoding: 'utf8',
  });
  if (status === 0) return undefined;
  return `unshare cannot make one here: ${error?.message ?? stderr.trim()}`;
}

/** Runs this script again inside; resolves with its exit code. An interrupt reaches it through its standard input. */
export function runInside(script: string, args: readonly string[]): Promise<number> {
  const command = ['sh', '-c', ENTER, 'sh', process.execPath, '--import', 'tsx', script, ...args];
  const child = spawn('unshare', [...roomFlags(), ...command], {
    env: { ...process.env, [INSIDE]: '1' },
    stdio: ['pipe', 'inherit', 'inherit'],
    // Apart from the terminal's ctrl-c: inside, everything is put away first.
    detached: true,
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.stdin?.end());
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => resolve(code ?? 1));
  });
}

/** Inside, every process but the shell, this one and its helpers belongs to a scenario. */
const OURS = new Set(numbersOfProcesses());

function numbersOfProcesses(): number[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
}

/** Returns what still runs of a scenario. Only to be asked inside. */
export function strangers(): number[] {
  return numbersOfProcesses().filter((pid) => !OURS.has(pid) && !isZombie(pid));
}

/** Ends what a scenario started, also what has left its parents. */
export function endStrangers(): void {
  if (process.env[INSIDE] !== '1') throw new Error('outside its room nothing is ended');
  for (const pid of strangers()) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has just ended.
    }
  }
}

function isZombie(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\)/s, ''));
  } catch {
    return true;
  }
}

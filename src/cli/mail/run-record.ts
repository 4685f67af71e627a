/**
 * Records what a `poste run` that was killed leaves for the next one of its agent: how often the oldest message was
 * tried, and which process its command is. So tries are counted over crashes, and no two commands work on one message.
 */
import { readFileSync } from 'node:fs';
import { type FileHandle, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { ownPaths } from '../../host/base/paths.ts';
import { foldName } from '../../host/core/address.ts';
import type { ProcessMark } from '../../host/core/session-rows.ts';
import { isRunning, processFacts } from '../../host/wake/processes.ts';
import { replaceFile } from '../../lib/files.ts';
import { endGroup } from '../../lib/process-group.ts';
import { isObject } from '../../protocol/json.ts';
import type { CommandContext } from '../lib/context.ts';
import { COMMAND_END_MS } from './run-command.ts';

interface MessageTries {
  message_id: string;
  /** The number of tries that began. */
  tries: number;
  /** The command of the last one, once it runs. */
  process: ProcessMark | null;
}

const LOOK_EVERY_MS = 50;
/** SIGKILL takes less. */
const GONE_MS = COMMAND_END_MS + 5000;
const NEVER = new AbortController().signal;

export class RunRecord {
  readonly path: string;
  #tried: MessageTries | undefined;

  /** Reads what an earlier run left, if it can be read. */
  constructor(context: CommandContext, agent: string) {
    this.path = join(ownPaths(context).dataFolder, `run-${foldName(agent)}.json`);
    this.#tried = readTried(this.path);
  }

  /** The message of the last try, which was not done with when it ended, or was cut off. */
  get pending(): string | undefined {
    return this.#tried?.message_id;
  }

  triesOf(messageId: string): number {
    return this.#tried?.message_id === messageId ? this.#tried.tries : 0;
  }

  /** A try begins, or has begun with this process. Throws errors of the system. */
  async write(message_id: string, tries: number, pid?: number): Promise<void> {
    const facts = pid === undefined ? undefined : await processFacts(pid, NEVER);
    const process = typeof facts === 'object' ? facts.mark : null;
    this.#tried = { message_id, tries, process };
    await replaceFile(this.path, `${JSON.stringify(this.#tried)}\n`);
  }

  /**
   * The mail as an open file without a name, for the command's standard input: a program may open that anew by
   * `/dev/stdin`, which it cannot do with the socket that Node would give it. Throws errors of the system.
   */
  async open(text: string): Promise<FileHandle> {
    const path = `${this.path}.mail`;
    try {
      await writeFile(path, text, { mode: 0o600 });
      return await open(path, 'r');
    } finally {
      await rm(path, { force: true });
    }
  }

  /** Nothing is tried. A file that stays is of a message that is not unread any more. */
  async clear(): Promise<void> {
    this.#tried = undefined;
    await rm(this.path, { force: true }).catch(() => undefined);
  }

  /** Ends the command that an earlier run left at work. Resolves with its process, if there was one. */
  async endLeftover(): Promise<number | undefined> {
    const mark = this.#tried?.process;
    if (!mark || !(await isRunning(mark, processFacts, NEVER))) return undefined;
    const finish = endGroup(mark.pid, COMMAND_END_MS);
    const untilMs = performance.now() + GONE_MS;
    while (performance.now() < untilMs && (await isRunning(mark, processFacts, NEVER))) await elapsed(LOOK_EVERY_MS);
    // Others of its group may work on.
    finish();
    return mark.pid;
  }
}

function readTried(path: string): MessageTries | undefined {
  try {
    const found: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (!isObject(found)) return undefined;
    const { message_id, tries, process } = found;
    if (typeof message_id !== 'string' || !Number.isSafeInteger(tries)) return undefined;
    return { message_id, tries: tries as number, process: markOf(process) };
  } catch {
    return undefined;
  }
}

function markOf(value: unknown): ProcessMark | null {
  if (!isObject(value)) return null;
  const { pid, startedAt } = value;
  return typeof pid === 'number' && pid > 1 && typeof startedAt === 'string' ? { pid, startedAt } : null;
}

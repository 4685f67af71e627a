/**
 * `poste run --acp`: an agent's program that speaks the Agent Client Protocol over its standard input and output, woken
 * by mail without a terminal. It gets the mail tools as a server of its session, and each doorbell as a prompt.
 *
 *     doorbell ─▶ session/prompt ─▶ what the agent says or does: the proof ─▶ the turn ends ─▶ the next doorbell
 *                                                                            │
 *     the program ends ─▶ a pause ─▶ it is started again, a few times in a row ◀─┘ after a turn they count anew
 *
 * What the program asks to be allowed is refused, but for the mail tools when their owner said so. Files and terminals
 * are not offered to it.
 */
import type * as Acp from '@agentclientprotocol/sdk';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { setTimeout as elapsed } from 'node:timers/promises';
import { doorbellText } from '../../host/core/doorbell.ts';
import { countText } from '../../host/core/spans.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { endChild, howItEnded, startGroup } from '../../lib/process-group.ts';
import { printable, printableText, printableWithin } from '../../protocol/printable.ts';
import { CommandFailed } from '../lib/exit.ts';
import { announce } from '../lib/output.ts';
import { COMMAND_END_MS } from './run-command.ts';
import { PAUSE_MAX_MS, type RunOptions, type RunParts } from './run-mail.ts';

/** A program may take so long to begin a session. */
const BEGIN_MS = 120_000;
/** Under this name the record keeps the program's process. */
const RECORD_NAME = 'acp';

/** The updates that an agent sends in a turn: a sign that it has the prompt. */
const SIGNS: ReadonlySet<Acp.SessionUpdate['sessionUpdate']> = new Set([
  'user_message_chunk',
  'agent_message_chunk',
  'agent_thought_chunk',
  'tool_call',
  'tool_call_update',
  'plan',
]);

/** The options of a run for each mail: the time is that of one turn, and tries are starts in a row without one. */
interface AcpOptions extends Pick<RunOptions, 'agent' | 'words' | 'timeoutMs' | 'triesMax' | 'pauseMs'> {
  /** The program may use the mail tools without being asked. */
  allowsTools: boolean;
}

interface AcpParts extends Omit<RunParts, 'options' | 'daemon'> {
  options: AcpOptions;
  doorbells: Doorbells;
}

/** The doorbells that rang and that the program did not get yet: the newest line stands for all. */
export class Doorbells {
  #hasRung = false;
  #tell: (() => void) | undefined;

  readonly ring = (): void => {
    this.#hasRung = true;
    this.#tell?.();
  };

  /** Resolves once one rang, which is taken. Resolves with false when the signal is aborted first. */
  async next(signal: AbortSignal): Promise<boolean> {
    if (!this.#hasRung && !signal.aborted) {
      const over = new AbortController();
      await new Promise<void>((resolve) => {
        this.#tell = resolve;
        signal.addEventListener('abort', () => resolve(), { signal: over.signal });
      });
      over.abort();
    }
    this.#tell = undefined;
    if (signal.aborted) return false;
    this.#hasRung = false;
    return true;
  }
}

/** Keeps the program running until `signal` is aborted. Throws `CommandFailed` when it ends too often. */
export async function runAcp(parts: AcpParts): Promise<void> {
  const { context, options, attendance, record, doorbells, signal } = parts;
  const { triesMax, pauseMs } = options;
  for (let failed = 0; !signal.aborted; ) {
    const program = new AcpProgram(parts);
    const why = await program.run();
    await record.clear();
    if (signal.aborted) return;
    await attendance.report({ doing: 'idle' });
    // It may have ended before its agent read anything.
    if (program.isInTurn) doorbells.ring();
    failed = program.turns > 0 ? 0 : failed + 1;
    const said = `the program ${why}`;
    if (failed >= triesMax) {
      const often = `${said}, after ${countText(triesMax, 'start')} in a row without a turn`;
      throw new CommandFailed('failure', 'PROGRAM_ENDS', `${often}: run it by hand, and see what it says`);
    }
    const waitMs = Math.min(pauseMs * 2 ** Math.max(0, failed - 1), PAUSE_MAX_MS);
    context.stderr.write(`poste: ${printable(said)}; it is started again in ${waitMs / 1000} s.\n`);
    await elapsed(waitMs, undefined, { signal }).catch(() => undefined);
  }
}

/** One process of the program, and its session. */
class AcpProgram {
  /** The number of turns that came to their end. */
  turns = 0;
  isInTurn = false;
  readonly #parts: AcpParts;
  readonly #ended = new AbortController();
  #sessionId = '';
  /** Hears that the agent shows that it has the prompt. */
  #shows: () => void = () => undefined;

  constructor(parts: AcpParts) {
    this.#parts = parts;
  }

  /** Starts it and gives it doorbells until it ends or is ended. Resolves with how, in words after `the program`. */
  async run(): Promise<string> {
    const { context, options, record, signal } = this.#parts;
    let child: ChildProcess;
    try {
      child = await startGroup(options.words, {
        env: { ...context.env, POSTE_AGENT: options.agent },
        stdio: ['pipe', 'pipe', context.stderr.fd ?? 'pipe'],
      });
    } catch (error) {
      return `could not be started (${(error as Error).message})`;
    }
    child.stderr?.pipe(context.stderr, { end: false });
    child.stdin?.on('error', () => undefined);
    const exited = howItEnded(child);
    void exited.then(() => this.#ended.abort());
    try {
      await record.write(RECORD_NAME, 0, child.pid).catch(() => undefined);
      const fault = await this.#talk(child);
      if (fault !== undefined) return fault;
      return signal.aborted ? 'was ended' : await exited;
    } finally {
      await endChild(child, COMMAND_END_MS);
    }
  }

  /** Resolves when the program has ended, when it is to end, or with why it is of no use. Throws `CommandFailed`. */
  async #talk(child: ChildProcess): Promise<string | undefined> {
    const { signal } = this.#parts;
    const acp = await import('@agentclientprotocol/sdk');
    const { stdin, stdout } = child;
    if (!stdin || !stdout) return 'has no standard input and output';
    const connection = acp
      .client({ name: 'poste' })
      .onRequest('session/request_permission', ({ params }) => this.#allow(params))
      .onNotification('session/update', ({ params }) => this.#take(params))
      .connect(acp.ndJsonStream(Writable.toWeb(stdin), Readable.toWeb(stdout) as ReadableStream<Uint8Array>));
    const over = AbortSignal.any([signal, this.#ended.signal, connection.signal]);
    try {
      await within(this.#begin(connection.agent, acp.PROTOCOL_VERSION), BEGIN_MS, over);
      while (await this.#parts.doorbells.next(over)) await this.#turn(connection.agent, over);
      return undefined;
    } catch (error) {
      if (over.aborted) return undefined;
      if (error instanceof CommandFailed) throw error;
      return `${this.isInTurn ? 'did not end its turn' : 'began no session'} (${faultText(error)})`;
    } finally {
      connection.close();
    }
  }

  async #begin(agent: Acp.ClientContext, protocolVersion: number): Promise<void> {
    const { context, options } = this.#parts;
    const initialized = await agent.request('initialize', {
      protocolVersion,
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
      clientInfo: { name: 'poste', version: softwareVersion() },
    });
    if (initialized.protocolVersion !== protocolVersion) {
      throw new Error(`it speaks version ${initialized.protocolVersion} of the protocol, not ${protocolVersion}`);
    }
    const env = Object.entries(context.env)
      .filter(([name]) => /^(?:POSTE_|XDG_|HOME$|PATH$)/.test(name))
      .map(([name, value = '']) => ({ name, value }));
    const args = [context.program, 'mcp', '--agent', options.agent];
    const server = { name: 'poste', command: process.execPath, args, env };
    const asked: Acp.NewSessionRequest = { cwd: process.cwd(), mcpServers: [server] };
    const { sessionId } = await agent.request('session/new', asked);
    this.#sessionId = sessionId;
  }

  /** Gives the agent the doorbell, if there is still unread mail, and waits for the end of its turn. */
  async #turn(agent: Acp.ClientContext, over: AbortSignal): Promise<void> {
    const { context, options, attendance, waiting, doorbells } = this.#parts;
    const { unread, newest_waking } = await waiting.ask('watch-inbox', {});
    if (unread === 0) return;
    const line = doorbellText(unread);
    const told = new Promise<void>((resolve) => {
      this.#shows = resolve;
    }).then(() => attendance.report({ doing: 'work', tell: true, lines: [line] }));
    told.catch(() => undefined);
    this.isInTurn = true;
    const { timeoutMs } = options;
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => this.#cancel(agent), timeoutMs);
    try {
      const asked: Acp.PromptRequest = { sessionId: this.#sessionId, prompt: [{ type: 'text', text: line }] };
      const ended = agent.request('session/prompt', asked);
      const { stopReason } = await within(
        ended,
        timeoutMs === undefined ? undefined : timeoutMs + COMMAND_END_MS,
        over,
      );
      this.#shows();
      await told;
      this.turns++;
      this.isInTurn = false;
      context.stderr.write(
        `poste: a turn for ${countText(unread, 'unread message')} ended: ${printable(stopReason)}.\n`,
      );
      await attendance.report({ doing: stopReason === 'refusal' ? 'failed' : 'idle' });
      // The daemon rings again only after a pause, for which mail that came during the turn need not wait.
      const left = (await waiting.ask('watch-inbox', {})).newest_waking;
      if (left !== undefined && left !== newest_waking) doorbells.ring();
    } catch (error) {
      if (over.aborted || !isAnswer(error)) throw error;
      this.isInTurn = false;
      context.stderr.write(`poste: a turn failed: ${printable(faultText(error))}.\n`);
      // It had the prompt, and the model was not asked: the doorbell rings again after a while.
      this.#shows();
      await told;
      await attendance.report({ doing: 'failed' });
    } finally {
      clearTimeout(timer);
    }
  }

  #cancel(agent: Acp.ClientContext): void {
    this.#parts.context.stderr.write('poste: a turn takes too long; it is cancelled.\n');
    void agent.notify('session/cancel', { sessionId: this.#sessionId }).catch(() => undefined);
  }

  #take({ sessionId, update }: Acp.SessionNotification): void {
    if (!this.#isOfTurn(sessionId)) return;
    if (SIGNS.has(update.sessionUpdate)) this.#shows();
    if (update.sessionUpdate !== 'agent_message_chunk' || update.content.type !== 'text') return;
    announce(this.#parts.context, printableText(update.content.text));
  }

  /** An update that comes at another time is no sign that the agent has the prompt. */
  #isOfTurn(sessionId: string): boolean {
    return this.isInTurn && sessionId === this.#sessionId;
  }

  #allow({ sessionId, toolCall, options }: Acp.RequestPermissionRequest): Acp.RequestPermissionResponse {
    if (this.#isOfTurn(sessionId)) this.#shows();
    const isAllowed = this.#parts.options.allowsTools && isMailTool(toolCall);
    const wanted = isAllowed ? 'allow_once' : 'reject_once';
    const option = options.find(({ kind }) => kind === wanted);
    const what = printableWithin(toolCall.title ?? toolCall.toolCallId, TITLE_CHARACTERS_MAX);
    this.#parts.context.stderr.write(`poste: ${isAllowed ? 'allowed' : 'refused'}: ${what}.\n`);
    return { outcome: option ? { outcome: 'selected', optionId: option.optionId } : { outcome: 'cancelled' } };
  }
}

const TITLE_CHARACTERS_MAX = 100;

const TOOL = 'mail_(?:agents|inbox|reply|send)';
/** Programs write `poste_mail_send`, `mcp__poste__mail_send` or `mail_send (poste MCP Server)`. */
const MAIL_TOOL = new RegExp(String.raw`^(?:(?:mcp__?)?poste__?|poste[-/])${TOOL}$|^${TOOL} \(poste MCP Server\)$`);

/**
 * Returns whether a program asks for one of the four tools of `poste mcp`: by the name that it gives beside the call,
 * as Qwen Code does, or else by the whole title. A tool that runs commands, edits or fetches is of another kind, and
 * has words of its model for a title.
 */
export function isMailTool({ title, kind, _meta }: Pick<Acp.ToolCallUpdate, 'title' | 'kind' | '_meta'>): boolean {
  const { toolName: name = title } = (_meta ?? {}) as { toolName?: unknown };
  return (kind ?? 'other') === 'other' && typeof name === 'string' && MAIL_TOOL.test(name);
}

/** Returns what the work gives. Throws when it takes too long, or the signal is aborted first. */
export async function within<T>(work: Promise<T>, ms: number | undefined, signal: AbortSignal): Promise<T> {
  const done = new AbortController();
  const ending = AbortSignal.any([signal, done.signal]);
  const late = async (): Promise<never> => {
    // An event that was is not waited for.
    ending.throwIfAborted();
    if (ms !== undefined) await elapsed(ms, undefined, { signal: ending });
    else await once(ending, 'abort');
    throw new Error(ms === undefined ? 'it was ended' : `it did not answer within ${ms / 1000} s`);
  };
  work.catch(() => undefined);
  const tooLate = late();
  tooLate.catch(() => undefined);
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    done.abort();
  }
}

/** Returns whether the program answered with an error, and not the connection or the clock. */
function isAnswer(error: unknown): boolean {
  return typeof (error as { code?: unknown }).code === 'number';
}

function faultText(error: unknown): string {
  const { message, data } = error as { message: string; data?: unknown };
  const details = typeof data === 'string' ? data : (data as { details?: unknown } | undefined)?.details;
  return typeof details === 'string' ? `${message}: ${details}` : message;
}

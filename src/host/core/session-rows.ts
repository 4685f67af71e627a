/** Sessions of agents, as rows: how each can be woken, and the program that it belongs to. */
import type { AgentId } from './rows.ts';

/** A method by which a session can be woken. */
export type WakeMethod =
  /** The session's own hook waits in a call to the daemon. */
  | { type: 'hook' }
  /** The session's own `poste mcp` waits likewise, and posts the line into the inbox of Claude Code, its parent. */
  | { type: 'claude-socket' }
  /** The app server of Codex begins a turn of the thread that the session is called after. */
  | { type: 'codex-socket'; socket: string }
  /** A program, run without a shell; the doorbell's text comes as its last argument. */
  | { type: 'command'; argv: string[] }
  /**
   * Keys sent to a tmux pane, while the pane shows the session's process at an empty input line. `input` is what such a
   * line looks like: `unknown` only where the owner asked for keys; nothing is typed where it is absent.
   */
  | { type: 'tmux'; socket: string | null; pane: string; input?: 'gemini' | 'qwen' | 'unknown' };

export type WakeMethodName = WakeMethod['type'];

/** A process of this machine. Process ids are reused; the start time tells two processes with one id apart. */
export interface ProcessMark {
  pid: number;
  /** Opaque. */
  startedAt: string;
}

export interface SessionRow {
  agentId: AgentId;
  /** Chosen by the session: 1 to 128 characters of a message id. */
  sessionId: string;
  registeredAtMs: number;
  seenAtMs: number;
  endedAtMs: number | null;
  wake: WakeMethod[];
  /** The agent's program: while it runs, the session is live. */
  process: ProcessMark | null;
  /** The method that last woke it, by proof. */
  woken: { method: WakeMethodName; atMs: number } | null;
  /** Hooks report its prompts, which prove a wake and show the mail; absent when none did yet, or no more may come. */
  reportsPrompts?: true;
  /** The last word of its hooks about its agent; absent when it is idle, or nothing was said. */
  doing?: SessionDoing;
}

/** `interrupted`: its user stopped the turn, and the program holds back what was queued. */
export type SessionDoing = 'work' | 'interrupted';

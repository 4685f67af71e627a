/**
 * Programs that run agents and can be given hooks: how each calls a hook, and what it takes from one.
 *
 * A hook is given one JSON document on stdin, with `session_id` and `hook_event_name`; what it prints or exits with is
 * told to the agent. What happens at each event is the same for all of them (run-hook.ts).
 */
import type { SessionRegisterInput } from '../documents/sessions.ts';

export const HOOK_PROGRAMS = ['claude-code', 'codex'] as const;
export type HookProgramName = (typeof HOOK_PROGRAMS)[number];

/** What an event means for a session: it begins, it is given work, its agent is idle, it is over. */
export type HookMoment = 'start' | 'prompt' | 'idle' | 'end';

/** One hook in the program's settings. */
export interface HookEntry {
  event: string;
  moment: HookMoment;
  /** Members of the hook beside its type and its command. */
  members: Readonly<Record<string, number | boolean>>;
}

export type WakeMethods = NonNullable<SessionRegisterInput['wake']>;

export interface HookSurroundings {
  environment: Readonly<Record<string, string | undefined>>;
  /** The path of a program, as a shell would find it; `undefined` when there is none. */
  findProgram: (name: string) => string | undefined;
}

export interface HookProgram {
  name: HookProgramName;
  /** For people. */
  title: string;
  entries: readonly HookEntry[];
  /** The folder of its settings, and the file in it that has hooks. */
  settingsFolder: (environment: HookSurroundings['environment'], homeFolder: string) => string;
  settingsFile: string;
  /** How a session of it can be woken. */
  wake: (sessionId: string, surroundings: HookSurroundings) => WakeMethods;
}

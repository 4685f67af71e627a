/**
 * Hooks in the settings of a program: ours are put in, or taken out, and everything else stays as it is. Pure.
 *
 *     { "hooks": { "<event>": [ { "matcher"?: …, "hooks": [ { "type": "command", "command": … } ] } ] } }
 */
import { isHookCommand } from './hook-command.ts';
import type { HookProgram } from './hook-program.ts';

/** The settings are not as the program documents them; completes "<file> …". */
export class SettingsRefused extends Error {}

type Json = Record<string, unknown>;

/** The settings with exactly these hooks of ours. Throws `SettingsRefused`. */
export function withHooks(settings: unknown, program: HookProgram, command: string): Json {
  const cleaned = withoutHooks(settings, program);
  const hooks = { ...(cleaned['hooks'] as Json | undefined) };
  for (const { event, members } of program.entries) {
    const groups = (hooks[event] as unknown[] | undefined) ?? [];
    hooks[event] = [...groups, { hooks: [{ type: 'command', command, ...members }] }];
  }
  return { ...cleaned, hooks };
}

/** The settings without hooks of ours, and without what only they needed. Throws `SettingsRefused`. */
export function withoutHooks(settings: unknown, program: HookProgram): Json {
  if (!isRecord(settings)) throw new SettingsRefused('is no JSON object');
  const { hooks } = settings;
  if (hooks === undefined) return settings;
  if (!isRecord(hooks)) throw new SettingsRefused('has "hooks" that are no object');
  const left: Json = {};
  for (const [event, groups] of Object.entries(hooks)) {
    if (!Array.isArray(groups)) throw new SettingsRefused(`has hooks of ${event} that are no list`);
    const kept = groups.flatMap((group: unknown) => cleanedGroup(group, event, program));
    if (kept.length > 0 || groups.length === 0) left[event] = kept;
  }
  const isEmptied = Object.keys(left).length === 0 && Object.keys(hooks).length > 0;
  const { hooks: _hooks, ...others } = settings;
  return isEmptied ? others : { ...settings, hooks: left };
}

function cleanedGroup(group: unknown, event: string, program: HookProgram): unknown[] {
  if (!isRecord(group) || !Array.isArray(group['hooks'])) {
    throw new SettingsRefused(`has a hook of ${event} that is no { "hooks": […] }`);
  }
  const handlers: unknown[] = group['hooks'];
  const kept = handlers.filter((handler) => !isOurs(handler, program));
  if (kept.length === handlers.length) return [group];
  return kept.length === 0 ? [] : [{ ...group, hooks: kept }];
}

function isOurs(handler: unknown, { name }: HookProgram): boolean {
  return isRecord(handler) && typeof handler['command'] === 'string' && isHookCommand(handler['command'], name);
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

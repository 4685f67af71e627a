/** What one look at a host found: a sentence, whether it needs anybody, and the command that mends it. Pure. */

export const CHECK_AREAS = ['host', 'daemon', 'peers', 'relay', 'mail', 'wake'] as const;
export type CheckArea = (typeof CHECK_AREAS)[number];

/** `ok`: as it should be. `note`: worth knowing, nothing to do now. `broken`: something does not work until it is mended. */
export const CHECK_STATES = ['ok', 'note', 'broken'] as const;
export type CheckState = (typeof CHECK_STATES)[number];

/** DO NOT CHANGE an id: programs switch on them. */
export const CHECK_IDS = [
  'config',
  'folder',
  'socket',
  'disk',
  'daemon',
  'store',
  'lan-listener',
  'peer',
  'relay',
  'relay-reach',
  'relay-key',
  'relay-epoch',
  'relay-clock',
  'relay-enrolment',
  'relay-enc-key',
  'relay-senders',
  'relay-queue',
  'relay-link',
  'outbox',
  'quarantine',
  'wake',
] as const;
export type CheckId = (typeof CHECK_IDS)[number];

export interface Check {
  area: CheckArea;
  id: CheckId;
  /** The paired host, agent or folder that it is about, where there is more than one. */
  about: string | null;
  state: CheckState;
  /** May hold words of others, as they said them. */
  sentence: string;
  /** For a shell; `<so>` stands for what only its reader knows. */
  command: string | null;
}

/** What a check is of. */
export type Subject = Pick<Check, 'area' | 'id'> & { about?: string };

export function ok(subject: Subject, sentence: string): Check {
  return found(subject, 'ok', sentence, null);
}

export function note(subject: Subject, sentence: string, command: string | null = null): Check {
  return found(subject, 'note', sentence, command);
}

export function broken(subject: Subject, sentence: string, command: string | null): Check {
  return found(subject, 'broken', sentence, command);
}

function found({ area, id, about }: Subject, state: CheckState, sentence: string, command: string | null): Check {
  return { area, id, about: about ?? null, state, sentence, command };
}

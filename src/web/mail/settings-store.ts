/** The settings of this browser for the page, kept in its local storage. */
import { signal } from '@preact/signals';

export interface Settings {
  /** Says whether single keys act. */
  keys: boolean;
  /** The words of a notification of the system. */
  notify: 'off' | 'sender' | 'subject';
}

const STORED_AS = 'poste-mail-settings';
const DEFAULTS: Settings = { keys: true, notify: 'off' };

export const settings = signal<Settings>(readSettings());

export function changeSettings(changes: Partial<Settings>): void {
  settings.value = { ...settings.value, ...changes };
  try {
    localStorage.setItem(STORED_AS, JSON.stringify(settings.value));
  } catch {
    // A browser that keeps nothing uses the settings until the page is closed.
  }
}

function readSettings(): Settings {
  try {
    const { keys, notify } = JSON.parse(localStorage.getItem(STORED_AS) ?? '{}') as Partial<Settings>;
    return {
      keys: typeof keys === 'boolean' ? keys : DEFAULTS.keys,
      notify: notify === 'sender' || notify === 'subject' ? notify : DEFAULTS.notify,
    };
  } catch {
    return DEFAULTS;
  }
}

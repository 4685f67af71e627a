/** Whether the page's user is signed in, how they sign in and out, and what a screen reader tells them after an action. */
import { signal } from '@preact/signals';
import { Problem, act, enter, resume } from './api.ts';

const TOKEN = /^#token=([A-Za-z0-9_-]+)$/;

export type SessionState = 'opening' | 'open' | 'none';

export const session = signal<SessionState>('opening');
/** Why there is no session, when somebody tried. */
export const doorNote = signal('');
/** Shown to the user who acted, and read out by a screen reader. */
export const notice = signal('');

/** What went wrong in words, for where somebody can do something about it. */
export function failed(error: unknown): string {
  if (!(error instanceof Problem)) throw error;
  if (error.code === 'NO_SESSION') session.value = 'none';
  return error.message;
}

/** Uses the token in the address, or the session that the browser has; `opened` is called when there is one. */
export async function openSession(opened: () => void): Promise<void> {
  const token = TOKEN.exec(location.hash)?.[1];
  // It stays neither in the address nor in the history.
  if (token !== undefined) history.replaceState(null, '', `${location.pathname}#/`);
  // A fresh link in the same tab.
  addEventListener('hashchange', () => {
    if (TOKEN.test(location.hash)) location.reload();
  });
  try {
    await (token === undefined ? resume() : enter(token).catch(resumeInstead));
    session.value = 'open';
    opened();
  } catch (error) {
    const words = failed(error);
    if (token !== undefined) doorNote.value = words;
    session.value = 'none';
  }
}

export async function leave(): Promise<void> {
  try {
    await act('leave', {});
    session.value = 'none';
  } catch (error) {
    notice.value = failed(error);
  }
}

/** A link that was opened twice leads to the session that it began. Throws why it is not good when there is none. */
async function resumeInstead(refused: unknown): Promise<void> {
  await resume().catch(() => {
    throw refused;
  });
}

/** Knows whether the user of the page is signed in, how they sign in and out, and the notice after an action. */
import { signal } from '@preact/signals';
import { Problem, act, resume, signIn } from './api.ts';

const TOKEN = /^#token=([A-Za-z0-9_-]+)$/;

export const session = signal<'opening' | 'open' | 'none'>('opening');
/** Says why signing in failed; `''` when nobody tried. */
export const signInProblem = signal('');
/** The result of the user's last action. Screen readers read it out. */
export const notice = signal('');

/** The reason for a failed request, as a text for the user. Without a session the page goes back to signing in. */
export function failureText(error: unknown): string {
  if (!(error instanceof Problem)) throw error;
  if (error.code === 'NO_SESSION') session.value = 'none';
  return error.message;
}

/**
 * Signs in with the token in the address, or continues the session of the browser. On success it waits for `prepare`,
 * opens the page, and calls `opened`.
 */
export async function openSession(opened: () => void, prepare?: () => Promise<void>): Promise<void> {
  const token = TOKEN.exec(location.hash)?.[1];
  // Removes the token from the address and from the history.
  if (token !== undefined) history.replaceState(null, '', `${location.pathname}#/`);
  // The user may open a new link in the same tab.
  addEventListener('hashchange', () => {
    if (TOKEN.test(location.hash)) location.reload();
  });
  try {
    await (token === undefined ? resume() : signIn(token).catch(resumeInstead));
    await prepare?.();
    session.value = 'open';
    opened();
  } catch (error) {
    const text = failureText(error);
    if (token !== undefined) signInProblem.value = text;
    session.value = 'none';
  }
}

export async function signOut(): Promise<void> {
  try {
    await act('leave', {});
    session.value = 'none';
  } catch (error) {
    notice.value = failureText(error);
  }
}

/**
 * A link that is opened a second time continues its session. Throws the reason of the refusal if there is no session.
 */
async function resumeInstead(refusal: unknown): Promise<void> {
  await resume().catch(() => {
    throw refusal;
  });
}

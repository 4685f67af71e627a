/** What the owner writes: when it is the same that was sent before, and what of it stays when it was sent. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

/** Code of a page is compiled apart. */
const DRAFTS = '../../../src/web/mail/drafts.ts';
interface Draft {
  to: readonly string[];
  subject: string;
  body: string;
  sentWith?: string;
}
interface Drafts {
  NEW_DRAFT: Draft;
  changeDraft: (name: string, first: Draft, changes: Partial<Draft>) => Draft;
  draftOf: (name: string) => Draft | undefined;
  dropSent: (name: string, sent: Draft) => void;
  keepDraft: (name: string, draft: Draft) => Promise<void>;
}
const { NEW_DRAFT, changeDraft, draftOf, dropSent, keepDraft } = (await import(DRAFTS)) as Drafts;

beforeEach(() => void vi.stubGlobal('sessionStorage', { removeItem: () => undefined }));
afterEach(() => void vi.unstubAllGlobals());

test('what was sent without an answer keeps its key until it is changed, so that it is sent once', async () => {
  const draft = changeDraft('new', NEW_DRAFT, { to: ['bob'], body: 'a' });
  await keepDraft('new', { ...draft, sentWith: 'k' });
  // As the link to write to bob does when the page is loaded again.
  expect(changeDraft('new', NEW_DRAFT, { to: ['bob'] }).sentWith).toBe('k');
  expect(draftOf('new')?.sentWith).toBe('k');
  expect(changeDraft('new', NEW_DRAFT, { body: 'b' }).sentWith).toBeUndefined();
  expect(draftOf('new')).toMatchObject({ to: ['bob'], body: 'b' });
});

test('what was sent is let go, and what was typed meanwhile stays', async () => {
  const first = { to: ['bob'], subject: 'Plan', body: 'Please look.' };
  const left = async (changes: Partial<Draft>): Promise<Draft | undefined> => {
    const sent = changeDraft('new', NEW_DRAFT, first);
    await keepDraft('new', { ...sent, sentWith: 'k' });
    changeDraft('new', NEW_DRAFT, changes);
    dropSent('new', sent);
    return draftOf('new');
  };
  expect(await left({})).toBeUndefined();
  expect(await left({ body: 'Please look.\n' })).toBeUndefined();
  expect(await left({ body: '' })).toBeUndefined();
  expect(await left({ body: 'Please look.\n\nP.S. Soon' })).toEqual({ ...NEW_DRAFT, ...first, body: 'P.S. Soon' });
  expect(await left({ body: 'Please look.\n\n    code' })).toMatchObject({ body: '    code' });
  expect(await left({ body: 'Never mind.' })).toEqual({ ...NEW_DRAFT, ...first, body: 'Never mind.' });
  // Somebody else is to get the next one.
  expect(await left({ to: ['carol'] })).toEqual({ ...NEW_DRAFT, ...first, to: ['carol'], body: '' });
});

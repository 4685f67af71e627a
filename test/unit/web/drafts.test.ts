/** What the owner writes: when it is the same that was sent before. */
import { expect, test } from 'vitest';

/** Code of a page is compiled apart. */
const DRAFTS = '../../../src/web/mail/drafts.ts';
interface Draft {
  to: readonly string[];
  body: string;
  sentWith?: string;
}
interface Drafts {
  NEW_DRAFT: Draft;
  changeDraft: (name: string, first: Draft, changes: Partial<Draft>) => Draft;
  draftOf: (name: string) => Draft | undefined;
  keepDraft: (name: string, draft: Draft) => Promise<void>;
}
const { NEW_DRAFT, changeDraft, draftOf, keepDraft } = (await import(DRAFTS)) as Drafts;

test('what was sent without an answer keeps its key until it is changed, so that it is sent once', async () => {
  const draft = changeDraft('new', NEW_DRAFT, { to: ['bob'], body: 'a' });
  await keepDraft('new', { ...draft, sentWith: 'k' });
  // As the link to write to bob does when the page is loaded again.
  expect(changeDraft('new', NEW_DRAFT, { to: ['bob'] }).sentWith).toBe('k');
  expect(draftOf('new')?.sentWith).toBe('k');
  expect(changeDraft('new', NEW_DRAFT, { body: 'b' }).sentWith).toBeUndefined();
  expect(draftOf('new')).toMatchObject({ to: ['bob'], body: 'b' });
});

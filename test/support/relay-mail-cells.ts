/**
 * Lists what the relay-mail tests try, each beside the others: what happens to daemons and a relay while mail is on its
 * way.
 */
import { type ExpectStatic, afterAll, beforeAll, test } from 'vitest';
import { RelayPost, type RelayPostOptions, makePairedHosts } from './relay-post.ts';
import { besideOthers } from './test-end.ts';
import { IS_THOROUGH } from './thorough.ts';

export interface Cell {
  what: string;
  options?: Omit<RelayPostOptions, 'paired'>;
  happens: (post: RelayPost, expect: ExpectStatic) => Promise<void>;
  /** Only with `npm run test:thorough`: what it rests on is tested in one process as well. */
  isThorough?: boolean;
  /** The number of messages that end with an alert; none when absent. */
  alerted?: number;
}

/** A test for each cell; in the end every message has arrived exactly once, or its sender was alerted. */
export function tryCells(cells: readonly Cell[]): void {
  let paired: ReturnType<typeof makePairedHosts>;
  beforeAll(() => {
    paired = makePairedHosts();
  });
  afterAll(async () => {
    await (await paired).remove();
  });
  test.concurrent.for(cells.filter(({ isThorough }) => IS_THOROUGH || !isThorough))(
    '$what',
    { timeout: 180_000 },
    besideOthers(async ({ options, happens, alerted = 0 }, { expect }) => {
      const { folder } = await paired;
      const post = await RelayPost.begin({ ...options, paired: folder });
      await happens(post, expect);
      await post.calm();
      expect(await post.outcome(alerted)).toEqual({ wrong: [], alerted, quarantined: 0 });
    }),
  );
}

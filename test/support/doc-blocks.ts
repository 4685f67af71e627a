/** Which shell blocks of the pages are run, by which test, and which are not and why. */
import { type Block, blocksOf, commandsOf, docPage, filesEnding } from './doc-pages.ts';

/** The blocks of the README, CONTRIBUTING and the pages of docs. */
export function userBlocks(): Block[] {
  const paths = filesEnding('.md').filter((path) => /^(?:README|CONTRIBUTING|docs\/[a-z-]+)\.md$/.test(path));
  return paths.flatMap((path) => blocksOf(docPage(path)));
}

/** The languages in which blocks hold what is no program: settings, documents, output, pictures. */
export const NO_PROGRAMS = ['', 'json', 'toml', 'yaml', 'http', 'text', 'markdown', 'mermaid', 'cron', 'dockerfile'];

/** Blocks of a page, below one heading or all of them. */
export interface Chosen {
  page: string;
  heading?: string;
  language?: string;
  /** What the first command begins with, where the heading does not tell. */
  first?: string;
}

export function isChosen({ page, heading = '', language = '', first = '' }: Chosen, block: Block): boolean {
  if (page !== block.page || !['', block.heading].includes(heading) || !['', block.language].includes(language)) {
    return false;
  }
  return first === '' || (commandsOf(block)[0]?.text ?? '').startsWith(first);
}

/** Blocks that a test of their own runs. */
export const RUN_BY: readonly (Chosen & { file: string })[] = [
  { page: 'README.md', heading: 'Get the command', file: 'test/e2e/package.test.ts' },
  { page: 'docs/library.md', language: 'js', file: 'test/e2e/package.test.ts' },
  { page: 'docs/recipes.md', file: 'test/e2e/recipes.test.ts' },
  { page: 'docs/cluster.md', language: 'sh', file: 'test/postgres/drills.test.ts' },
  { page: 'docs/cluster.md', heading: 'Try it', file: 'test/postgres/cluster.test.ts' },
  { page: 'docs/cluster-drills.md', file: 'test/postgres/drills.test.ts' },
  { page: 'docs/lan.md', file: 'test/e2e/pairing.test.ts' },
];

/** Blocks that no test runs. They are parsed, and their commands and flags held to the program, like all others. */
export const NOT_RUN: readonly (Chosen & { why: string })[] = [
  { page: 'README.md', heading: 'See it work', why: 'builds anew the program that other tests run, and runs them all' },
  { page: 'CONTRIBUTING.md', why: 'the same; test/unit/forge.test.ts holds the first change to the sources' },
  {
    page: 'docs/operating.md',
    heading: 'In five minutes',
    first: 'npm ci',
    why: 'root, systemd, a user of the system',
  },
  { page: 'docs/operating.md', heading: 'In containers', why: 'Docker; test/unit/deploy.test.ts reads its files' },
  { page: 'docs/relay-mail.md', heading: 'A relay that shows two histories', why: 'a relay that lies' },
  { page: 'docs/host.md', heading: 'Two relays', why: 'a relay that is away for minutes' },
  { page: 'docs/host.md', heading: 'Moving to another relay', why: 'it takes a day at least' },
  { page: 'docs/testing.md', heading: 'Real programs', why: 'programs of others, which npm brings' },
  { page: 'docs/testing.md', heading: 'Two relays', why: 'another build; its tests run with this one' },
];

/** Those of the blocks that are run as the page shows them, with what stands for the machines that it names. */
export function blocksToRun(blocks: readonly Block[]): Block[] {
  return blocks
    .filter(({ language }) => !NO_PROGRAMS.includes(language))
    .filter((block) => ![...RUN_BY, ...NOT_RUN].some((chosen) => isChosen(chosen, block)));
}

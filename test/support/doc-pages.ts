/**
 * The Markdown pages of the repository as a test can read them: headings with their anchors, links, code, numbered
 * rules, and the commands and flags that they name.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
/** Folders whose files are nobody's pages. */
const NOT_OURS = new Set(['node_modules', 'dist', '.git', 'stryker']);

export interface DocPage {
  /** Relative to the repository, as `docs/mail.md`. */
  path: string;
  text: string;
  /** Without fenced blocks, their lines kept empty. */
  prose: string;
  headings: Heading[];
}

export interface Heading {
  title: string;
  level: number;
  /** As GitHub makes it, a repeated one with its number. */
  anchor: string;
  /** The text below it, up to the next heading. */
  body: string;
}

export interface Place {
  page: string;
  line: number;
}

/** Every file of the repository with one of these endings, relative to it, sorted. */
export function filesEnding(...endings: string[]): string[] {
  const found: string[] = [];
  const visit = (folder: string): void => {
    for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory() && !NOT_OURS.has(entry.name)) visit(path);
      else if (entry.isFile() && endings.some((ending) => path.endsWith(ending))) found.push(path);
    }
  };
  visit('');
  return found.toSorted();
}

export function readText(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

export function docPage(path: string, text = readText(path)): DocPage {
  const prose = text.replaceAll(/^( *)(```|~~~)[^]*?^\1\2$/gm, (block) => block.replaceAll(/[^\n]/g, ''));
  return { path, text, prose, headings: headingsOf(prose) };
}

function headingsOf(prose: string): Heading[] {
  const found = [...prose.matchAll(/^(?<marks>#{1,6}) (?<title>.+)$/gm)];
  const seen = new Map<string, number>();
  return found.map((match, at) => {
    const { marks = '', title = '' } = match.groups ?? {};
    const slug = anchorOf(title);
    const before = seen.get(slug) ?? 0;
    seen.set(slug, before + 1);
    const body = prose.slice(match.index + match[0].length, found[at + 1]?.index);
    return { title: plain(title), level: marks.length, anchor: before === 0 ? slug : `${slug}-${before}`, body };
  });
}

/** The anchor that GitHub gives a heading. */
export function anchorOf(title: string): string {
  return plain(title)
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M} _-]/gu, '')
    .replaceAll(' ', '-');
}

/** A title without code marks and links. */
function plain(title: string): string {
  return title.replaceAll(/\[(?<text>[^\]]*)\]\([^)]*\)/g, '$<text>').replaceAll('`', '');
}

export interface Link extends Place {
  target: string;
}

/** Every link and picture of a page, as it is written. */
export function linksOf({ path, prose }: DocPage): Link[] {
  const withoutCode = prose.replaceAll(/`[^`\n]*`/g, (code) => ' '.repeat(code.length));
  const links = withoutCode.matchAll(/\]\((?<target>[^)\s]+)\)|\b(?:src|href)="(?<other>[^"]+)"/g);
  return Array.from(links, ({ groups, index }) => {
    return { page: path, line: lineAt(prose, index), target: groups?.['target'] ?? groups?.['other'] ?? '' };
  });
}

export interface Code extends Place {
  text: string;
}

/** Returns what stands in backquotes outside of fenced blocks. */
export function codeOf({ path, prose }: DocPage): Code[] {
  const spans = prose.matchAll(/`(?<text>[^`\n]+)`/g);
  return Array.from(spans, ({ groups, index }) => {
    return { page: path, line: lineAt(prose, index), text: groups?.['text'] ?? '' };
  });
}

/** Every call of `poste` that a page shows, from `poste` to the end of the command: in code, and in fenced blocks. */
export function callsOf(page: DocPage): Code[] {
  const calls: Code[] = [];
  const prose = page.prose.split('\n');
  for (const [at, line] of page.text.split('\n').entries()) {
    const isProse = prose[at] === line && !line.startsWith('    ');
    const codes = isProse ? Array.from(line.matchAll(/`([^`]+)`/g), (match) => match[1] ?? '') : [line];
    for (const code of codes) {
      for (const part of code.split(/\||&&|;|\s#\s|\s&(?:\s|$)/)) {
        const call = CALL.exec(part.trim())?.groups;
        if (call && (isProse || call['prompt'] !== undefined)) {
          calls.push({ page: page.path, line: at + 1, text: call['words'] ?? '' });
        }
      }
    }
  }
  return calls;
}

/** A prompt, settings and programs that run another one, then `poste` with its words. */
const CALL = new RegExp(
  String.raw`^(?<prompt>[a-z]*[$#] )?(?:[A-Z_]+=\S+ |sudo (?:-u \S+ )?|npx |exec )*` +
    String.raw`(?:poste(?: poste)?|as_relay) (?<words>[a-z-].*)$`,
);

/** A fenced block of code. */
export interface Block extends Place {
  language: string;
  /** The name of its file, behind the language. */
  title: string | undefined;
  /** The heading above it. */
  heading: string;
  text: string;
}

export function blocksOf({ path, text, prose }: DocPage): Block[] {
  const lines = prose.split('\n');
  const found = text.matchAll(/^```(?<language>\w*)(?: title=(?<title>\S+))?.*\n(?<body>[^]*?)^```$/gm);
  return Array.from(found, ({ groups, index }) => {
    const line = lineAt(text, index);
    const above = lines.slice(0, line).findLast((one) => one.startsWith('#')) ?? '';
    return {
      page: path,
      line,
      language: groups?.['language'] ?? '',
      title: groups?.['title'],
      heading: plain(above.replace(/^#+ /, '')),
      text: groups?.['body'] ?? '',
    };
  });
}

/** What somebody types into a shell, and what it prints. */
export interface Typed {
  /** The machine whose prompt it stands behind; empty where the page has only one. */
  machine: string;
  text: string;
  printed: string;
}

/** The commands of a block: behind a prompt, with lines that a backslash joins; or all of a block in `sh`. */
export function commandsOf({ language, text }: Block): Typed[] {
  if (language === 'sh') return [{ machine: '', text: text.trimEnd(), printed: '' }];
  const commands = text.matchAll(
    /^ {0,2}(?<machine>[a-z]*)\$ (?<typed>(?:.*\\\n)*.*)\n(?<printed>(?:(?! {0,2}[a-z]*\$ ).*\n)*)/gm,
  );
  return Array.from(commands, ({ groups }) => {
    const { machine = '', typed = '', printed = '' } = groups ?? {};
    return { machine, text: typed, printed };
  });
}

/** The numbers of the list that a section of rules begins with. */
export function rulesOf({ body }: Heading): number[] {
  return Array.from(body.matchAll(/^(?<number>\d+)\. /gm), ({ groups }) => Number(groups?.['number']));
}

/** `1 to 3, 5 and 7` as numbers. */
export function numbersIn(text: string): number[] {
  return text.split(/, | and /).flatMap((part) => {
    const [from = 0, to = from] = part.split(' to ').map(Number);
    return Array.from({ length: to - from + 1 }, (_, at) => from + at);
  });
}

export function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length;
}

/** The comments of a TypeScript source, with the lines on which they begin. A comment of several lines is one text. */
export function commentsOf(path: string, source = readText(path)): Code[] {
  const comments = source.matchAll(/^[ \t]*(?:\/\*\*?(?<block>[^]*?)\*\/|\/\/(?<line>.*(?:\n[ \t]*\/\/.*)*))/gm);
  return Array.from(comments, ({ groups, index }) => {
    const text = (groups?.['block'] ?? groups?.['line'] ?? '').replaceAll(/\n[ \t]*(?:\*|\/\/)?[ \t]?/g, ' ');
    return { page: path, line: lineAt(source, index), text };
  });
}

/**
 * What the pages say is so, wherever a machine can tell: links and anchors, commands and flags, scripts, paths, and
 * every rule that a comment or the name of a test cites.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { commandsBelow, defaultChildOf } from '../../src/cli/lib/command-tree.ts';
import { posteCommand } from '../../src/cli/run.ts';
import { commandContext } from '../support/command-run.ts';
import { NOT_RUN, NO_PROGRAMS, RUN_BY, blocksToRun, isChosen, userBlocks } from '../support/doc-blocks.ts';
import {
  type Code,
  type DocPage,
  type Heading,
  anchorOf,
  blocksOf,
  callsOf,
  codeOf,
  commandsOf,
  commentsOf,
  docPage,
  filesEnding,
  linksOf,
  numbersIn,
  readText,
  rulesOf,
} from '../support/doc-pages.ts';
import { tableRows } from '../support/protocol-document.ts';

const ROOT = join(import.meta.dirname, '../..');
const pages = new Map(filesEnding('.md').map((path) => [path, docPage(path)]));
const sources = filesEnding('.ts').filter((path) => /^(?:src|test|scripts|bench)\//.test(path));

/** The comments of every source, read once. */
const comments = sources.flatMap((path) => commentsOf(path));
const specification = page('docs/specification.md');
const protocol = page('docs/protocol.md');

function page(path: string): DocPage {
  const found = pages.get(path);
  if (!found) throw new Error(`there is no page ${path}`);
  return found;
}

describe('links', () => {
  test('lead to a file of the repository and, with an anchor, to a heading of it', () => {
    const links = [...pages.values()].flatMap(linksOf);
    expect(links.length).toBeGreaterThan(80);
    expect(links.map(brokenLink).filter((found) => found !== '')).toEqual([]);
  });

  test('would be found broken: a file or a heading that is not there', () => {
    const links = linksOf(
      docPage('docs/x.md', '# A\n[a](none.md), [b](mail.md#no-such), [c](#a), [d](#b), ![e](e.svg)'),
    );
    expect(links.map(brokenLink).map((found) => found !== '')).toEqual([true, true, false, true, true]);
    expect(anchorOf('`poste host`: What, *is* it?')).toBe('poste-host-what-is-it');
  });
});

describe('comments', () => {
  /** A comment that begins so has no verb of its own. */
  const FRAGMENT = /^\*?\s*(?:Whether|How (?:many|much|long|often|far|old))\b/;

  test('of src begin with a sentence and not with a question word alone', () => {
    const ofSrc = comments.filter(({ page: path }) => path.startsWith('src/'));
    expect(ofSrc.length).toBeGreaterThan(3000);
    const fragments = ofSrc.filter(({ text }) => FRAGMENT.test(text));
    expect(fragments.map(({ page: path, line, text }) => `${path}:${line}:${text}`)).toEqual([]);
  });

  test('would be found: a line that begins with "Whether", and a block with "How many"', () => {
    const found = commentsOf(
      'src/x.ts',
      '// Whether it is.\nconst a = 1;\n/** How many. */\nconst b = 2; // Why\n/** What is, is. */',
    );
    expect(found.map(({ text }) => FRAGMENT.test(text))).toEqual([true, true, false]);
  });
});

const described = commandsBelow(await posteCommand(undefined, commandContext()));

function flagsOf({ options }: Command): string[] {
  return options.flatMap(({ long, short }) => [long ?? '', short ?? '']);
}

describe('commands', () => {
  const commands = new Map(described.map(({ name, command }) => [name, { command, flags: flagsOf(command) }]));
  /** The flags of programs that are not ours. */
  const FOREIGN_FLAGS = new Set([
    '--agent', // of claude mcp add, behind --
    '--container',
    '--debug',
    '--network',
    '--omit',
    '--stop-timeout',
    '--thread',
    '--message',
    '--rm',
    '--yes-always',
    '--ulimit',
    '--mutate',
    '--test',
    '--prefix',
  ]);

  test('and flags that a page shows are those of docs/cli.md', () => {
    const calls = [...pages.values()].flatMap(callsOf);
    expect(calls.length).toBeGreaterThan(150);
    expect(calls.map((call) => wrongCall(call)).filter((found) => found !== '')).toEqual([]);
  });

  test('would be found wrong: a command, a flag, or an argument too many', () => {
    const calls = ['relay serve --store-dir /x --limits \'{"retention_days": 2.5}\'', 'relay', 'inbox --web'];
    const wrong = ['relay sreve', 'relay serve --stroe-dir x', 'status everything', 'inbox --wbe'];
    const found = [...calls, ...wrong].filter((text) => wrongCall({ page: 'x.md', line: 1, text }) !== '');
    expect(found).toEqual(wrong);
  });

  test('flags alone in code are flags of some command', () => {
    const known = new Set([...commands.values()].flatMap(({ flags }) => flags));
    const flags = [...pages.values()].flatMap(codeOf).filter(({ text }) => text.startsWith('--'));
    expect(flags.length).toBeGreaterThan(40);
    const unknown = flags.filter(({ text }) => {
      const [flag = ''] = text.split(/[ =]/);
      if (['--', '--help'].includes(flag)) return false;
      return !known.has(flag) && !FOREIGN_FLAGS.has(flag);
    });
    expect(unknown.map(({ page: at, line, text }) => `${at}:${line} ${text}`)).toEqual([]);
  });

  test('of npm are scripts of package.json', () => {
    const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> };
    const called = [...pages.values()].flatMap(({ path, text }) =>
      Array.from(
        text.matchAll(/\bnpm (?:run (?:--silent )?(?<script>[a-z:-]+)|(?<own>start|test)\b)/g),
        ({ groups }) => {
          return { path, script: groups?.['script'] ?? groups?.['own'] ?? '' };
        },
      ),
    );
    expect(called.length).toBeGreaterThan(10);
    expect(called.filter(({ script }) => !Object.hasOwn(scripts, script))).toEqual([]);
  });

  /** Says what is wrong with a call, else nothing. */
  function wrongCall({ page: at, line, text }: Code): string {
    let name = 'poste';
    let isArgument = false;
    for (const word of text.replaceAll(/'[^']*'|"[^"]*"/g, 'quoted').split(/[\s,]+/)) {
      const { command, flags = [] } = commands.get(name) ?? {};
      const inherited = command && defaultChildOf(command);
      if (word === '--') break;
      if (/^--?[a-zA-Z]/.test(word)) {
        const [flag = ''] = word.split('=');
        const known = ['--help', '-h', ...flags, ...(inherited ? flagsOf(inherited) : [])];
        if (!known.includes(flag)) return `${at}:${line} poste ${text}: ${flag}`;
        isArgument = true;
      } else if (!isArgument && commands.has(`${name} ${word}`)) name = `${name} ${word}`;
      else if (!isArgument && (inherited ?? command)?.registeredArguments.length === 0 && /^[a-z]/.test(word)) {
        return `${at}:${line} poste ${text}: ${word}`;
      } else isArgument = true;
    }
    return '';
  }
});

/** What a shell says of lines that it cannot parse. */
function faultIn(input: string): string {
  return spawnSync('bash', ['-n'], { input, encoding: 'utf8' }).stderr;
}

describe('shell blocks', () => {
  const shown = [...pages.values()].flatMap(blocksOf);

  test('and commands in examples can be parsed by a shell', () => {
    const commands = shown.flatMap((block) => commandsOf(block).map((typed) => ({ block, text: typed.text })));
    expect(commands.length).toBeGreaterThan(200);
    // One shell for all: each command is a function, so that none can end another.
    const functions = commands.map(({ text, block }, at) => `f${at}() { # ${block.page}:${block.line}\n${text}\n}`);
    const wrong = faultIn(functions.join('\n')) === '' ? [] : functions.filter((one) => faultIn(one) !== '');
    expect(wrong).toEqual([]);
  });

  test('are run by a test, or a list says why not', () => {
    const blocks = userBlocks();
    const programs = blocks.filter(({ language }) => !NO_PROGRAMS.includes(language));
    const languages = new Set(programs.map(({ language }) => language));
    expect([...languages].toSorted()).toEqual(['console', 'js', 'sh']);
    const toRun = blocksToRun(blocks);
    expect(toRun.length).toBeGreaterThan(20);
    expect(toRun.filter((block) => block.language === 'js' || commandsOf(block).length === 0)).toEqual([]);
    const typed = readText('test/e2e/doc-blocks.test.ts');
    const untyped = toRun.filter(({ page: path, heading }) => {
      return [`{ page: '${path}' }`, `'${heading}'`, `"${heading}"`].every((words) => !typed.includes(words));
    });
    expect(untyped).toEqual([]);
    const idle = [...RUN_BY, ...NOT_RUN].filter((chosen) => !programs.some((block) => isChosen(chosen, block)));
    expect(idle).toEqual([]);
    expect(RUN_BY.filter(({ file, page: path }) => !readText(file).includes(path))).toEqual([]);
  });
});

describe('paths', () => {
  const EXTENSION = /\.(?:ts|md|json|mjs|js|yml|conf|service|css|html|svg)$/;
  const all = filesEnding('');
  const names = new Set(all.map((path) => path.split('/').at(-1) ?? ''));
  const folders = new Set(all.flatMap((path) => path.split('/').map((_, at, parts) => parts.slice(0, at).join('/'))));
  /** Files that are made: by a build, at a first start, by a program of others, in an example. */
  const MADE =
    /^(?:(?:dist|stryker|node_modules)\/|(?:main\.js|(?:package-lock|\.mcp|settings|hooks)\.json|config\.toml)$)/;

  test('that the pages name in code are there', () => {
    const codes = [...pages.values()].flatMap(codeOf).filter(({ text }) => isPath(text));
    expect(codes.length).toBeGreaterThan(60);
    expect(missing(codes)).toEqual([]);
  });

  test('that comments name are there', () => {
    const named = comments.flatMap(({ page: from, line, text }) => {
      const paths = text.matchAll(
        /(?<![\w./:@~-])(?:[a-z0-9.-]+\/)+[a-z0-9.-]*[a-z0-9]\.(?:ts|md|json)\b|(?<=`)[a-z0-9-]+\.(?:ts|md)(?=`)/g,
      );
      return Array.from(paths, ([found]) => ({ page: from, line, text: found }));
    });
    expect(named.length).toBeGreaterThan(60);
    expect(missing(named)).toEqual([]);
  });

  function isPath(text: string): boolean {
    return (
      /^[\w.*{},-][\w.*{},/-]*$/.test(text) && (EXTENSION.test(text) || /^(?:src|test|docs|scripts|bench)\//.test(text))
    );
  }

  function missing(codes: readonly Code[]): string[] {
    return codes
      .filter(({ page: from, text }) => !exists(from, text))
      .map((code) => `${code.page}:${code.line} ${code.text}`);
  }

  /** True when a path names a file or folder, from the repository, src, its half of src, or its own folder. */
  function exists(from: string, text: string): boolean {
    if (MADE.test(text)) return true;
    if (!text.includes('/')) return names.has(text) || existsSync(join(ROOT, text));
    const roots = ['', 'src', 'src/relay', 'src/host', 'test', 'test/unit', from.split('/').slice(0, -1).join('/')];
    return roots.some((root) => {
      const path = join(root, text).replace(/\/$/, '');
      if (!text.includes('*')) return all.includes(path) || folders.has(path);
      const pattern = new RegExp(`^${path.replaceAll('.', String.raw`\.`).replaceAll('*', '[^/]*')}(?:/|$)`);
      return all.some((file) => pattern.test(file));
    });
  }
});

describe('citations', () => {
  const shortNames = new Map(
    tableRows(specification.text, 'short name', 'section').map(([name = '', link = '']) => [
      name,
      /\[(?<title>[^\]]*)\]/.exec(link)?.groups?.['title'] ?? '',
    ]),
  );

  test('of a rule in the name of a test mean a rule of the specification', () => {
    const cited = sources
      .filter((path) => path.startsWith('test/'))
      .flatMap((path) => {
        const text = readText(path);
        const all = text.matchAll(/['`"](?<name>[a-z][a-z ]*?) rules? (?<numbers>\d+(?:(?:, | and | to )\d+)*)[: '`]/g);
        return Array.from(all, ({ groups }) => ({
          path,
          name: groups?.['name'] ?? '',
          numbers: groups?.['numbers'] ?? '',
        }));
      });
    expect(cited.length).toBeGreaterThan(150);
    const wrong = cited.filter(({ name, numbers }) => !hasRules(shortNames.get(name) ?? '', numbers));
    expect(wrong).toEqual([]);
  });

  test('of a section and a rule in a comment mean those of the specification', () => {
    const cited = comments.flatMap(({ page: path, line, text }) => {
      const rules = text.matchAll(
        /"(?<title>[A-Z][^"]{3,60})",? (?:rules? )?(?<numbers>\d+(?:(?:, | and | to )\d+)*)(?!\w|\.\d)/g,
      );
      return Array.from(rules, ({ groups }) => {
        return { at: `${path}:${line}`, title: groups?.['title'] ?? '', numbers: groups?.['numbers'] ?? '' };
      });
    });
    expect(cited.length).toBeGreaterThan(30);
    expect(cited.filter(({ title, numbers }) => !hasRules(title, numbers))).toEqual([]);
  });

  /** The titles of sections that a comment names, and where it says they are. */
  const NAMED_SECTIONS = new RegExp(
    String.raw`(?<named>[Ss]pecification|docs\/[a-z-]+\.md|Invariants)[,:]? \(?` +
      String.raw`(?<titles>"[^"]+"(?:(?:,|;| and|, rules? [\d, and to]+;) "[^"]+")*)`,
    'g',
  );

  test('of a section alone, after "Specification", "docs/<page>.md" or "Invariants", mean a heading', () => {
    const found = comments.flatMap(({ page: path, line, text }) => {
      return Array.from(text.matchAll(NAMED_SECTIONS)).flatMap(({ groups }) => {
        const titles = Array.from(groups?.['titles']?.matchAll(/"([^"]+)"/g) ?? [], (match) => match[1]);
        return titles.map((title) => ({ at: `${path}:${line}`, named: groups?.['named'] ?? '', title }));
      });
    });
    expect(found.length).toBeGreaterThan(20);
    const wrong = found.filter(({ named, title }) => {
      // Behind a page the specification may be cited too, without its name.
      const cited = named.startsWith('docs/') ? [page(named), specification] : [specification];
      return !cited.some(({ headings }) => headings.some((heading) => heading.title === title));
    });
    expect(wrong).toEqual([]);
  });

  test('of a page mean one that is there, and no section by number', () => {
    const wrong = comments.filter(({ text }) =>
      [...text.matchAll(/(?<path>[\w./-]*[\w-]+\.md)\b(?<section>,? (?:section|§) ?\d)?/g)].some(
        ({ groups }) => groups?.['section'] !== undefined || !isKnownPage(groups?.['path'] ?? ''),
      ),
    );
    expect(wrong.map(({ page: at, line }) => `${at}:${line}`)).toEqual([]);
  });

  function hasRules(title: string, numbers: string): boolean {
    const section = sectionOf(title);
    const rules = section ? rulesOf(section) : [];
    return numbersIn(numbers).every((number) => rules.includes(number));
  }

  function sectionOf(title: string): Heading | undefined {
    return specification.headings.find((heading) => heading.title === title);
  }
});

describe('the specification', () => {
  test('numbers the rules of each section from 1 without a gap', () => {
    const numbered = specification.headings.filter((heading) => rulesOf(heading).length > 0);
    expect(numbered.length).toBeGreaterThan(11);
    for (const heading of numbered) {
      const rules = rulesOf(heading);
      expect({ title: heading.title, rules }).toEqual({ title: heading.title, rules: rules.map((_, at) => at + 1) });
    }
  });

  test('has the same limits, routes and defaults as the protocol', () => {
    const limits = tableRows(specification.text, 'field', 'value').map(([name = '', value = '']) => [
      name,
      Number.parseInt(value, 10),
    ]);
    const defaults = tableRows(protocol.text, 'limit', 'default', '').map(([name = '', value = '']) => [
      name,
      Number(value),
    ]);
    expect(limits).toEqual(defaults);
    const routes = tableRows(specification.text, 'method', 'path', 'access', 'largest body').flatMap(
      ([methods = '', path = '']) => methods.split(', ').map((method) => `${method} ${path}`),
    );
    const all = new Set(
      tableRows(protocol.text, 'method', 'path', 'access', 'largest body').map(([method, path]) => `${method} ${path}`),
    );
    expect(routes.filter((route) => !all.has(route))).toEqual([]);
  });
});

describe('the README', () => {
  test('begins with the checkout, and shows the package of npm as what is to come while none is published', () => {
    const { text } = page('README.md');
    const [first] = blocksOf(page('README.md'));
    const { repository, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      repository: { url: string };
      version: string;
    };
    expect(first && commandsOf(first).map(({ text: line }) => line.replace(/ +#.*$/, ''))).toEqual([
      `git clone ${repository.url.replace('git+', '')} && cd poste`,
      'npm ci && npm pack',
      `npm install --global --ignore-scripts ./poste-${version}.tgz`,
      'poste --version',
    ]);
    const ofNpm = [...text.matchAll(/.{20}(?:npx poste|npm i(?:nstall)? (?:--global|-g) poste)/g)];
    expect(ofNpm.map(([found]) => found)).toEqual([`When ${version} is out, \`npm install --global poste`]);
  });

  test('has at most 120 lines', () => {
    expect(page('README.md').text.trimEnd().split('\n').length).toBeLessThanOrEqual(120);
  });

  test('names every page of docs, so that a reader finds it', () => {
    const linked = new Set(linksOf(page('README.md')).map(({ target }) => target.split('#')[0]));
    const ofDocs = [...pages.keys()].filter((path) => path.startsWith('docs/'));
    expect(ofDocs.filter((path) => !linked.has(path))).toEqual([]);
  });
});

describe('docs/architecture.md', () => {
  const architecture = page('docs/architecture.md');
  const rows = architecture.text.split('\n').filter((line) => line.startsWith('| `'));

  test('has the import rules that the linter keeps', () => {
    const { overrides } = JSON.parse(readText('.oxlintrc.json')) as { overrides: { rules: object }[] };
    const kept = new Map<string, string>();
    for (const { groups } of JSON.stringify(overrides).matchAll(
      /"message":"src\/(?<folder>[a-z/-]+) may import (?<others>[^";]+)/g,
    )) {
      kept.set(groups?.['folder'] ?? '', groups?.['others'] === 'nothing of ours' ? '' : (groups?.['others'] ?? ''));
    }
    expect(kept.size).toBeGreaterThan(20);
    const rules = architecture.headings.find(({ title }) => title === 'Import rules')?.body ?? '';
    const told = new Map<string, string>();
    for (const { groups } of rules.matchAll(/^\| (?<folders>`.*?) \| (?<others>.*) \|$/gm)) {
      const others = namesIn(groups?.['others'] ?? '');
      for (const folder of namesIn(groups?.['folders'] ?? '')) told.set(folder, others.join(', '));
    }
    expect(Object.fromEntries(told)).toEqual(Object.fromEntries(kept));
  });

  test('says what lives in every folder of src', () => {
    const folders = new Set(
      sources.flatMap((path) => /^src\/(?<folder>[a-z]+(?:\/[a-z-]+)?)\//.exec(path)?.groups?.['folder'] ?? []),
    );
    expect(folders.size).toBeGreaterThan(25);
    const told = rows.flatMap((row) => namesIn(row.split('|')[1] ?? '').map((name) => name.replace(/\/$/, '')));
    const within = [...folders].filter(
      (folder) => !told.includes(folder) && !told.includes(folder.split('/')[0] ?? ''),
    );
    expect(within).toEqual([]);
    expect(told.filter((folder) => !existsSync(join(ROOT, 'src', folder)))).toEqual([]);
  });
});

describe('the walks of docs/architecture.md', () => {
  const walks = page('docs/architecture.md').headings.filter(({ title }) => /^Walk \d/.test(title));

  test('are three, each with the count of its files', () => {
    expect(walks.map(({ title }) => title)).toHaveLength(3);
    for (const { title, body } of walks) {
      const count = Number(/\((?<count>\d+) files\)/.exec(title)?.groups?.['count']);
      expect({ title, count: stepsOf(body).flatMap(({ files }) => files).length }).toEqual({ title, count });
    }
  });

  test('name files that are there, each reached from an earlier one by an import, or by what the step says', () => {
    for (const { title, body } of walks) {
      const before = new Set<string>();
      const unreached: string[] = [];
      for (const { files, reason } of stepsOf(body)) {
        for (const file of files) {
          if (!sources.includes(`src/${file}`)) unreached.push(`${title}: there is no src/${file}`);
          else if (before.size > 0 && reason === '' && !isReached(file, before)) unreached.push(`${title}: ${file}`);
          before.add(file);
        }
      }
      expect(unreached).toEqual([]);
    }
  });
});

/** Says where a link leads to nothing, else nothing. */
function brokenLink({ page: from, line, target }: { page: string; line: number; target: string }): string {
  if (/^[a-z]+:/.test(target)) return '';
  const [path = '', anchor] = target.split('#');
  const to = path === '' ? from : join(from, '..', path);
  const headings = pages.get(to)?.headings ?? (to === 'docs/x.md' ? [{ anchor: 'a' }] : undefined);
  if (to !== 'docs/x.md' && !existsSync(join(ROOT, to))) return `${from}:${line} ${target}`;
  if (anchor !== undefined && !headings?.some((heading) => heading.anchor === anchor))
    return `${from}:${line} ${target}`;
  return '';
}

function isKnownPage(path: string): boolean {
  return pages.has(path) || /leveldb\/doc\/|^review\.md$/.test(path);
}

/** `a`, `b` (types) as its names, with what stands behind them. */
function namesIn(text: string): string[] {
  return text
    .replaceAll('`', '')
    .split(/, | and /)
    .map((name) => name.trim())
    .filter((name) => name !== '–' && name !== '');
}

/** A step: its files, and how it is reached where no import says it: `(over the local socket)`. */
function stepsOf(body: string): { files: string[]; reason: string }[] {
  return [...body.matchAll(/^\d+\. (?<step>.*)$/gm)].map(({ groups }) => {
    const [head = '', rest = ''] = (groups?.['step'] ?? '').split(': ', 2);
    const reason = /\((?<reason>[^)]*)\)/.exec(head)?.groups?.['reason'] ?? '';
    const files = Array.from(
      head.replace(/\([^)]*\)/, '').matchAll(/`(?<file>[^`]+\.ts)`/g),
      (match) => match.groups?.['file'] ?? '',
    );
    if (files.length === 0 || rest === '') throw new Error(`a step names its files, then what they do: ${head}`);
    return { files, reason };
  });
}

function isReached(file: string, before: ReadonlySet<string>): boolean {
  return [...before].some((from) => importsOf(from).has(file)) || [...importsOf(file)].some((to) => before.has(to));
}

function importsOf(file: string): Set<string> {
  const specifiers = readText(`src/${file}`).matchAll(/\b(?:from|import\()\s*'(?<specifier>\.[^']+)'/g);
  return new Set(Array.from(specifiers, ({ groups }) => posix.join(posix.dirname(file), groups?.['specifier'] ?? '')));
}

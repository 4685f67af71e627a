/**
 * The real programs, from npm: each version in a folder of its own outside the project, without install scripts, so
 * that nothing but npm's own packages is fetched. What is there already is used again.
 */
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const PROGRAM_NAMES = [
  'claude',
  'codex',
  'gemini',
  'qwen',
  'opencode',
  'copilot',
  'cline',
  'inspector',
] as const;
export type ProgramName = (typeof PROGRAM_NAMES)[number];

export function isProgramName(name: string): name is ProgramName {
  return PROGRAM_NAMES.some((known) => known === name);
}

interface Published {
  package: string;
  /** What the docs say was tried. */
  version: string;
  /** Its file below node_modules. The native ones are run without the script that stands before them. */
  file: string;
}

const SYSTEM = `${process.platform}-${process.arch}`;
/** Codex names its folder as Rust names the system. */
const CODEX_SYSTEM = `${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-unknown-linux-musl`;

const PUBLISHED: Readonly<Record<ProgramName, Published>> = {
  claude: {
    package: '@anthropic-ai/claude-code',
    version: '2.1.332',
    file: `@anthropic-ai/claude-code-${SYSTEM}/claude`,
  },
  codex: {
    package: '@openai/codex',
    version: '0.171.0',
    file: `@openai/codex-${SYSTEM}/vendor/${CODEX_SYSTEM}/bin/codex`,
  },
  gemini: { package: '@google/gemini-cli', version: '0.61.0', file: '@google/gemini-cli/bundle/gemini.js' },
  qwen: { package: '@qwen-code/qwen-code', version: '0.24.4', file: '@qwen-code/qwen-code/cli-entry.js' },
  copilot: { package: '@github/copilot', version: '1.0.102', file: `@github/copilot-${SYSTEM}/copilot` },
  cline: { package: 'cline', version: '3.0.65', file: `@cline/cli-${SYSTEM}/bin/cline` },
  opencode: { package: 'opencode-ai', version: '1.18.33', file: `opencode-${SYSTEM}/bin/opencode` },
  inspector: {
    package: '@modelcontextprotocol/inspector',
    version: '2.12.0',
    file: '@modelcontextprotocol/inspector/clients/launcher/build/index.js',
  },
};

export interface Installed {
  title: string;
  version: string;
  file: string;
}

export type Versions = Readonly<Partial<Record<ProgramName, string>>>;

/** The file of a program, which is installed first if it is missing. */
export async function installed(name: ProgramName, versions: Versions): Promise<Installed> {
  const published = PUBLISHED[name];
  const version = versions[name] ?? published.version;
  const root = process.env['XDG_CACHE_HOME'] ?? (existsSync(homedir()) ? join(homedir(), '.cache') : tmpdir());
  const folder = join(root, 'poste-programs', `${name}@${version}`);
  const file = join(folder, 'node_modules', published.file);
  if (!existsSync(file)) await install(`${published.package}@${version}`, folder);
  accessSync(file, constants.R_OK);
  return { title: published.package, version, file };
}

/** Into a folder beside it first: what an interrupted run left is never taken for an installed program. */
async function install(spec: string, folder: string): Promise<void> {
  const beside = `${folder}.${process.pid}`;
  rmSync(beside, { recursive: true, force: true });
  mkdirSync(beside, { recursive: true });
  writeFileSync(join(beside, 'package.json'), '{ "private": true }\n');
  console.log(`installing ${spec} into ${folder}`);
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock'];
  await promisify(execFile)('npm', ['install', ...flags, spec], { cwd: beside });
  rmSync(folder, { recursive: true, force: true });
  renameSync(beside, folder);
}

/** The files of scripts/deploy and the operator's guide, read apart for the tests that hold them to the code. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = new URL('../../', import.meta.url);

/** Returns where a file of the repository is. */
export function repositoryPath(path: string): string {
  return fileURLToPath(new URL(path, ROOT));
}

export function deployFile(name: string): string {
  return readFileSync(repositoryPath(`scripts/deploy/${name}`), 'utf8');
}

export function operatorsGuide(): string {
  return readFileSync(repositoryPath('docs/operating.md'), 'utf8');
}

/** The settings of a unit file: every value of each, by `Section.Name`. */
export function unitSettings(text: string): Map<string, string[]> {
  const settings = new Map<string, string[]>();
  let section = '';
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const header = /^\[(?<name>[A-Za-z]+)\]$/.exec(line)?.groups?.['name'];
    const setting = /^(?<name>[A-Za-z]+)=(?<value>.*)$/.exec(line)?.groups;
    if (header !== undefined) section = header;
    else if (setting) {
      const name = `${section}.${setting['name'] ?? ''}`;
      settings.set(name, [...(settings.get(name) ?? []), setting['value'] ?? '']);
    } else throw new Error(`no setting: ${line}`);
  }
  return settings;
}

export interface DockerStep {
  instruction: string;
  argument: string;
}

/** The instructions of a Dockerfile, each with its continued lines joined. */
export function dockerSteps(text: string): DockerStep[] {
  const lines = text.split('\n').filter((line) => !line.startsWith('#'));
  const joined = lines.join('\n').replaceAll(/\\\n\s*/g, '');
  return joined.split('\n').flatMap((line) => {
    const [instruction = '', ...words] = line.split(' ');
    return instruction === '' ? [] : [{ instruction, argument: words.join(' ') }];
  });
}

/** Every metric that a PromQL expression names. */
export function metricsOf(expression: string): string[] {
  return expression.match(/\b(?:poste_relay|nodejs|process)_[a-z0-9_]+\b|\bup\b/g) ?? [];
}

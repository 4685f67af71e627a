import { mkdirSync, symlinkSync, writeFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  chosenAgent,
  projectAgent,
  type ProjectAgents,
  ProjectsUnreadable,
  readProjectAgents,
  writeProjectAgent,
} from '../../../../src/host/base/project-agents.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const PROJECTS: ProjectAgents = {
  '/code/shop': { codex: 'codex-shop', 'claude-code': 'claude-shop' },
  '/code/shop/vendor/tool': { codex: 'codex-tool' },
};

function broken(): never {
  throw new ProjectsUnreadable('broken');
}

describe('the agent of a session', () => {
  const whole = { given: 'flag', environment: { POSTE_AGENT: 'named' }, program: 'codex', byDefault: 'user' };

  test.each([
    ['a flag', whole, 'flag'],
    ['POSTE_AGENT', { ...whole, given: undefined }, 'named'],
    ['the project', { ...whole, given: undefined, environment: {} }, 'codex-shop'],
    [
      'the project, where POSTE_AGENT is empty',
      { ...whole, given: undefined, environment: { POSTE_AGENT: '' } },
      'codex-shop',
    ],
    ['the settings of the user', { ...whole, given: undefined, environment: {}, program: 'gemini' }, 'user'],
    ['nobody', { environment: {}, program: 'gemini' }, undefined],
    ['nobody, where the program is not known', { environment: {} }, undefined],
  ])('is named by %s, before what comes after it', (_by, given, agent) => {
    expect(chosenAgent({ ...given, folder: () => '/code/shop/src' }, () => PROJECTS)).toBe(agent);
  });

  test('is looked up in no file and no folder where a flag or POSTE_AGENT names it', () => {
    const given = { environment: {}, program: 'codex', folder: broken };
    expect(chosenAgent({ ...given, given: 'flag' }, broken)).toBe('flag');
    expect(chosenAgent({ ...given, environment: { POSTE_AGENT: 'named' } }, broken)).toBe('named');
  });
});

describe('the agent of a project', () => {
  test.each([
    ['/code/shop', 'codex', 'codex-shop'],
    ['/code/shop/src/deep', 'codex', 'codex-shop'],
    ['/code/shop/vendor/tool/src', 'codex', 'codex-tool'],
    ['/code/shop/vendor/tool', 'claude-code', 'claude-shop'],
    ['/code/shop-2', 'codex', undefined],
    ['/work', 'codex', undefined],
    ['/', 'codex', undefined],
    ['/code/shop', 'constructor', undefined],
  ])('in %s, for %s, is that of the nearest folder that has one: %s', (folder, program, agent) => {
    expect(projectAgent(PROJECTS, program, folder)).toBe(agent);
  });

  test('is the same under a symbolic link to the checkout', async () => {
    const folder = await temporaryFolder();
    mkdirSync(join(folder, 'real'));
    symlinkSync(join(folder, 'real'), join(folder, 'link'));
    const projects = { [join(folder, 'real')]: { codex: 'x' } };
    expect(projectAgent(projects, 'codex', join(folder, 'link'))).toBe('x');
  });
});

describe('the file of the projects', () => {
  test('keeps each agent by folder and program, and goes with the last of them', async () => {
    const data = await temporaryFolder();
    expect(readProjectAgents(data)).toEqual({});
    const write = (folder: string, program: string, agent?: string): Promise<void> =>
      writeProjectAgent(data, { folder, program, agent });
    await write('/a', 'codex', 'one');
    await write('/a', 'gemini', 'two');
    await write('/b', 'codex', 'three');
    await write('/a', 'codex', 'four');
    expect(readProjectAgents(data)).toEqual({ '/a': { gemini: 'two', codex: 'four' }, '/b': { codex: 'three' } });
    await write('/a', 'codex');
    await write('/a', 'gemini');
    expect(readProjectAgents(data)).toEqual({ '/b': { codex: 'three' } });
    await write('/b', 'codex');
    await write('/b', 'codex');
    expect(existsSync(join(data, 'projects.json'))).toBe(false);
  });

  test.each([
    '{',
    '[]',
    '{"version":2,"projects":{}}',
    '{"version":1,"projects":[]}',
    '{"version":1,"projects":{"/a":["x"]}}',
    '{"version":1,"projects":{"/a":{"codex":"a b"}}}',
    '{"version":1,"projects":{"/a":"x"}}',
  ])('that holds %s is refused, and stays as it is', async (text) => {
    const data = await temporaryFolder();
    const file = join(data, 'projects.json');
    writeFileSync(file, text);
    expect(() => readProjectAgents(data)).toThrow(ProjectsUnreadable);
    await expect(writeProjectAgent(data, { folder: '/a', program: 'codex', agent: 'x' })).rejects.toThrow(file);
    expect(readFileSync(file, 'utf8')).toBe(text);
  });
});

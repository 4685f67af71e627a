/** A machine for `poste setup`: a home with some programs on PATH and nothing else, unless a test adds a systemd. */
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { daemonHere, runHere } from './command-run.ts';
import { endDaemon } from './poste-home.ts';
import type { Environment } from './poste-process.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { atTestEnd } from './test-end.ts';

export interface SetupStep {
  step: string;
  state: string;
  why?: string;
  copies?: string[];
}

export interface SetupDocument {
  steps: SetupStep[];
  notices: string[];
}

export async function machine(...programs: string[]): Promise<Environment> {
  const home = await temporaryFolder();
  const here = {
    HOME: home,
    PATH: join(home, 'bin'),
    POSTE_HOME: join(home, 'poste'),
    XDG_CONFIG_HOME: join(home, 'config'),
  };
  await mkdir(here.PATH);
  for (const program of programs) await addProgram(here, program, '#!/bin/sh\n');
  return here;
}

export async function addProgram({ PATH = '' }: Environment, name: string, text: string): Promise<void> {
  await writeFile(join(PATH, name), text);
  await chmod(join(PATH, name), 0o700);
}

/** The steps of a setup, which succeeds. */
export async function setup(environment: Environment, ...args: string[]): Promise<SetupStep[]> {
  const { code, stdout, stderr } = await runHere(['setup', '--json', ...args], { environment });
  if (code !== 0) throw new Error(stderr);
  return (JSON.parse(stdout) as SetupDocument).steps;
}

export function pathIn({ HOME = '' }: Environment, ...names: string[]): string {
  return join(HOME, ...names);
}

export function read(environment: Environment, ...names: string[]): Promise<string> {
  return readFile(pathIn(environment, ...names), 'utf8');
}

/** The copies of settings that stand anywhere below the home. */
export async function copiesIn(environment: Environment): Promise<string[]> {
  const names = await readdir(pathIn(environment), { recursive: true });
  return names.filter((name) => name.includes('.before-poste-'));
}

/** A machine with a host whose daemon runs in this process. */
export async function served(...programs: string[]): Promise<Environment> {
  const environment = await machine(...programs);
  expect(await runHere(['init', '--host', 'here'], { environment })).toMatchObject({ code: 0 });
  await daemonHere(environment);
  return environment;
}

/** The number of the daemon's process, when one answers. */
export async function daemonPid(environment: Environment): Promise<number | undefined> {
  const { code, stdout } = await runHere(['status', '--json'], { environment });
  return code === 0 ? (JSON.parse(stdout) as { pid: number }).pid : undefined;
}

/** Ends a daemon that the test left. */
export function endDaemonAtEnd(environment: Environment): void {
  atTestEnd(async () => {
    const left = existsSync(pathIn(environment, 'poste')) ? await daemonPid(environment) : undefined;
    if (left !== undefined) await endDaemon(left).catch(() => undefined);
  });
}

import { describe, expect, test } from 'vitest';
import { type PathSources, daemonSocketFault, hostPaths } from '../../../../src/host/base/paths.ts';

function pathsOf(
  environment: Record<string, string>,
  options: Partial<PathSources> = {},
): ReturnType<typeof hostPaths> {
  return hostPaths({
    environment,
    homeFolder: '/home/ada',
    workingFolder: '/srv',
    userId: 1000,
    owns: () => false,
    ...options,
  });
}

const owns: PathSources['owns'] = (path, userId) => path === '/run/user/1000' && userId === 1000;

describe('hostPaths', () => {
  test('without any word of the environment everything lies below the home folder', () => {
    expect(pathsOf({})).toEqual({
      configFile: '/home/ada/.config/poste/config.toml',
      dataFolder: '/home/ada/.local/share/poste',
      store: '/home/ada/.local/share/poste/store',
      socket: '/home/ada/.local/share/poste/daemon.sock',
      logFile: '/home/ada/.local/share/poste/daemon.log',
    });
  });

  test('the XDG folders are taken', () => {
    const paths = pathsOf({ XDG_CONFIG_HOME: '/c', XDG_DATA_HOME: '/d', XDG_RUNTIME_DIR: '/r' });
    expect(paths).toMatchObject({
      configFile: '/c/poste/config.toml',
      store: '/d/poste/store',
      socket: '/r/poste/daemon.sock',
    });
  });

  test('a relative XDG folder is ignored, as the specification of the folders says', () => {
    expect(pathsOf({ XDG_CONFIG_HOME: 'c', XDG_DATA_HOME: '', XDG_RUNTIME_DIR: 'r' })).toEqual(pathsOf({}));
  });

  test('a process without the environment of the session finds the socket of the session', () => {
    expect(pathsOf({}, { owns }).socket).toBe('/run/user/1000/poste/daemon.sock');
    expect(pathsOf({}, { owns, userId: 1001 }).socket).toBe('/home/ada/.local/share/poste/daemon.sock');
    expect(pathsOf({}, { owns: () => true, userId: undefined }).socket).toBe(
      '/home/ada/.local/share/poste/daemon.sock',
    );
  });

  test('POSTE_HOME is before all of them, and may be relative', () => {
    const paths = pathsOf({ POSTE_HOME: 'mine', XDG_CONFIG_HOME: '/c', XDG_DATA_HOME: '/d', XDG_RUNTIME_DIR: '/r' });
    expect(paths).toEqual({
      configFile: '/srv/mine/config.toml',
      dataFolder: '/srv/mine',
      store: '/srv/mine/store',
      socket: '/srv/mine/daemon.sock',
      logFile: '/srv/mine/daemon.log',
    });
  });
});

test('a socket path that no system takes is told with its length and what to do', () => {
  const fits = pathsOf({ POSTE_HOME: `/${'x'.repeat(80)}` });
  expect(daemonSocketFault(fits)).toBeUndefined();
  const fault = daemonSocketFault(pathsOf({ POSTE_HOME: `/${'x'.repeat(120)}` }));
  expect(fault).toMatch(
    /has 133 bytes where this system allows 10[37]: set POSTE_HOME or XDG_RUNTIME_DIR to a shorter path/,
  );
});
